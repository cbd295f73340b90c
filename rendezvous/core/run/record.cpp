// What outlives a run's daemon: the record that is persisted, what waits for that, and how a daemon
// goes on from the record of the one before.
//
// The record has the instance, the numbers that its rounds may have, what was charged, whose
// workers may live, and how the instance ended. Numbers are reserved ahead, and a failure is
// charged when it is reported, so that all of it is persisted by the time the next round starts.
// Two things wait for that: no worker is started, and no node is told of an end, before the record
// is persisted.
//
// An instance that was open when its daemon died is waited for. Agents that come back are believed
// rather than the record, which may be an old copy. If only newcomers have come when the window is
// over, the instance goes on with them: at once, if it had no round, or if all members of its
// newest round are among them by name (they died together, and the same commands were started
// again); otherwise when no worker of the missing members can live any longer. If no node has come
// at all, the instance is lost.
//
// A failure beyond the budget ends the run once its round has stopped, and is recorded before that,
// in case the daemon dies in between. The next daemon ends the instance: when the round of those
// that come back has stopped, or at once if no node comes back that knows of a round.
#include "rendezvous/core/run/record.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void go_on_from(current_instance& current, round_numbers& rounds, const run_record& record) {
  rounds.set_reserved(record.rounds_reserved);
  current.budget.set_restarts_used(record.restarts_used);
  current.budget.set_restarts_forgiven(record.restarts_forgiven);
  current.placed = {record.nodes, record.gone_after, record.members};
}

namespace {

closed_instance closed_of(const past_end& one, time_point at) {
  closed_instance over;
  over.instance = one.instance;
  over.exit_code = one.how.exit_code;
  over.text = one.how.text;
  over.round = over.left.round = one.round;
  over.restarts_used = one.restarts_used;
  over.restarts_forgiven = one.restarts_forgiven;
  over.closed_at = at;
  over.job = one.job;
  return over;
}

// The closed instance that this record tells of. `until`: its nodes may have living workers until
// then; none: they have none.
closed_instance closed_of(const run_record& record, const run_end& how, time_point at,
                          std::optional<time_point> until) {
  closed_instance over =
      closed_of(past_end{record.instance, how, record.rounds_reserved, record.restarts_used,
                         record.restarts_forgiven, record.job},
                at);
  if (record.nodes == 0 || !until) return over;
  over.left.unknown = record.nodes;
  over.left.until = *until;
  over.left.is_held = true;
  over.left.let_go_limit = record.gone_after;
  over.left.members = members_by_name(record.nodes, record.members);
  return over;
}

}  // namespace

void remember(const run_options& options, entered_phase& phase, current_instance& current,
              round_numbers& rounds, recovery_claims& claims, closed_instances& closed,
              persisted_run& persisted, record_persistence& records, const machine_clock& clock,
              const run_record& record) {
  records.begin_with(record);
  current.job = record.job;
  for (auto one = record.past.items().rbegin(); one != record.past.items().rend(); ++one)
    closed.add(closed_of(*one, options.began));
  // An open record of another job is ignored (DESIGN.md, "Whose job it is").
  if (!record.end && !is_same_job(record.job, options.opened_by)) return claims.end_wait();
  go_on_from(current, rounds, record);
  if (!record.end) {
    persisted.begin(record, clock.own(options.began));
    rounds.raise_floor(rounds.reserved());
    // No worker was ever started, so no node has to be waited for.
    if (record.nodes == 0) claims.end_wait();
    return;
  }
  claims.end_wait();
  phase.enter(run_phase::closed, clock.own(options.began));
  current.id = record.instance;
  current.last_end = record.end->text;
  closed.add(closed_of(record, *record.end, options.began, options.began + record.gone_after));
}

// Until when workers of the record's nodes may live, in real time; none: none may.
std::optional<time_point> persisted_living_until(const machine_clock& clock,
                                                 const persisted_run& persisted) {
  const std::optional<machine_time> until = persisted.living_until();
  return until ? std::optional(clock.real(*until)) : std::nullopt;
}

// No node that has come knows of a round of the instance whose failure was beyond the budget, so
// what is started now is another instance.
void end_due_record(current_instance& current, closed_instances& closed, persisted_run& persisted,
                    const machine_clock& clock, outbox& out) {
  const run_record record = *persisted.record();
  out.note(note_level::warning, "the run had ended when its rendezvous daemon died (" +
                                    record.due->how.text +
                                    "): the job that starts now is a new run");
  closed_instance over =
      closed_of(record, record.due->how, clock.real_now(), clock.real(persisted.gone_at()));
  over.left.members = persisted.members();  // some of them may be here
  closed.add(std::move(over));
  current.job = record.job;
  persisted.drop();
}

// The same if nodes have come back that were told of the instance, but not of its round.
void run::state::close_as_due() {
  const run_end how = current.due->how;
  // Counts all members as missing, because those that are here leave now, and may come again.
  current.left_behind =
      closed_of(*persisted.record(), how, real_now, clock.real(persisted.gone_at())).left;
  close(how.exit_code, std::nullopt, how.text);
}

// Begins an instance for nodes of which none knows of a round.
void run::state::begin_instance(const node& opener) {
  if (persisted.is_there() && persisted.record()->due &&
      !is_record_of_another(options, persisted, nodes))
    end_due_record(current, closed, persisted, clock, out);
  if (!persisted.is_there() || is_record_of_another(options, persisted, nodes)) {
    return open_instance(opener.fresh_instance, opener.greeting.job);
  }
  const persisted_run before = persisted;
  open_instance(before.record()->instance, before.record()->job);
  if (before.record()->job) current.job = before.record()->job;
  persisted = before;
  go_on_from(current, rounds, *before.record());
  // Its members may still come until other nodes are placed. Whatever round they name is more than
  // is known here, even if the record, perhaps an old copy, says that there was none.
  current.is_found = true;
  out.note(note_level::info,
           "none of its nodes has come back: the run goes on from what was persisted, with " +
               counted(current.budget.restarts_used(), "restart") +
               " used and round numbers above " + std::to_string(rounds.floor()));
}

timer_moment lost_instance_at(const current_instance& current, const persisted_run& persisted,
                              const roster& nodes) {
  if (!persisted.is_there() || current.is_decided() || !nodes.empty()) return std::nullopt;
  return persisted.lost_at();
}

void run::state::end_lost_instance() {
  current.id = persisted.record()->instance;
  current.placed.count = 0;
  if (const std::optional<due_end> due = persisted.record()->due) {
    return close(due->how.exit_code, std::nullopt, due->how.text);
  }
  close(failed_exit_code, std::nullopt,
        "lost: the rendezvous daemon was started again, and no node of this run has come back "
        "within " +
            to_text(persisted.record()->lost_after));
}

// If this daemon lives in a member, that member dies with it, and then the others let go of each
// other.
void note_placed(current_instance& current, const round_memberships& memberships,
                 const timers& timing) {
  current.placed.count = static_cast<std::uint32_t>(memberships.size());
  std::vector<std::string> names;
  names.reserve(memberships.size());
  bool is_hosted = false;
  for (const membership& one : memberships) {
    names.push_back(one.holder() == nullptr ? std::string() : one.holder()->lasting_name());
    is_hosted = is_hosted || (one.holder() != nullptr && one.holder()->hosts_us);
  }
  current.placed.names = shared_list<std::string>(std::move(names));
  current.placed.gone_after =
      is_hosted ? with_margin(2 * timing.isolation_limit) : timing.orphan_limit;
}

run_record record_of(const run_options& options, const current_instance& current,
                     const round_numbers& rounds, const closed_instances& closed) {
  const closed_instance& over = closed.newest();
  run_record record;
  record.run_id = options.run_id;
  record.instance = over.instance;
  record.rounds_reserved = std::max(rounds.reserved(), over.round);
  record.restarts_used = over.restarts_used;
  record.restarts_forgiven = over.restarts_forgiven;
  if (over.left.until > over.closed_at) {
    record.nodes = std::max({current.placed.count, 1U, over.left.members.size()});
    record.members = over.left.members.names();
    record.gone_after = over.left.until - over.closed_at;
  }
  record.end = run_end{over.exit_code, over.text};
  record.job = over.job;
  record.past = closed.past_before_newest();
  return record;
}

// For an instance that has placed no node: what may live of older instances.
void remember_stale(const current_instance& current, const stale_workers& stale,
                    const closed_instances& closed, const persisted_run& persisted,
                    const timers& timing, const machine_clock& clock, run_record& record) {
  time_point until = stale_until(stale, closed, persisted, clock);
  if (!stale.ending().empty()) until = std::max(until, current.opened_at + timing.orphan_limit);
  if (until <= clock.real_now()) return;
  record.nodes = nodes_per_run_max;
  record.gone_after = until - current.opened_at;
  const leftovers* const known = sole_stale(stale, closed, clock);
  if (known == nullptr || known->members.names().empty()) return;
  record.nodes = known->members.size();
  record.members = known->members.names();
}

// Charges what the causes so far would cost, for a daemon that has to go on from this record.
void foresee_charge(const current_instance& current, const round_numbers& rounds,
                    time_point real_now, const std::optional<cause>& why, run_record& record) {
  if (!why) return;
  if (std::optional<run_end> how = end_beyond_budget(current, real_now, *why)) {
    record.due = due_end{rounds.newest(), *std::move(how)};
  } else if (is_charged_as_restart(why->kind)) {
    ++record.restarts_used;
  }
}

std::optional<run_record> run::state::record_now() const {
  if (phase == run_phase::closed) {
    if (closed.empty() || closed.newest().instance != current.id) return std::nullopt;
    return record_of(options, current, rounds, closed);
  }
  if (!current.is_decided()) {
    if (persisted.is_there() || closed.empty()) return persisted.record();
    return record_of(options, current, rounds,
                     closed);  // the instance after it went without a round
  }
  // Until it has a round of its own, the old record still says most.
  if (!current.settings && persisted.is_there()) return persisted.record();
  run_record record;
  record.run_id = options.run_id;
  record.instance = current.id;
  record.rounds_reserved = rounds.reserved();
  record.restarts_used = current.budget.restarts_used();
  record.restarts_forgiven = current.budget.restarts_forgiven();
  record.job = current.job;
  record.nodes = current.placed.count;
  record.members = current.placed.names;
  record.past = closed.past();
  record.due = current.due;
  record.gone_after = current.placed.gone_after;
  record.lost_after =
      current.settings ? current.settings->timing.orphan_limit : timers().orphan_limit;
  if (!current.settings)
    remember_stale(current, stale, closed, persisted, timing_of(current, groups), clock, record);
  if (phase == run_phase::stopping && !stop.is_free() && !current.operator_stop) {
    foresee_charge(current, rounds, real_now, causes.get(), record);
  }
  return record;
}

bool run::state::is_recorded() const {
  return !options.persists_records || records.is_persisted(record_now());
}

void run::state::persist() {
  if (!options.persists_records) return;
  std::optional<run_record> record = record_now();
  if (const auto revision = records.ask(record)) {
    out.persist(*revision, std::move(record));
  }
}

void run::state::order_close(node& who, message_pointer message) {
  if (is_recorded()) return out.want(who, std::move(message));
  who.owed = std::move(message);
}

void persisted_run::begin(run_record record, machine_time since) {
  *this = {};
  since_ = since;
  members_ = members_by_name(record.nodes, record.members);
  record_ = std::move(record);
}

std::optional<machine_time> persisted_run::living_until() const {
  if (!record_ || members_.missing() == 0) return std::nullopt;
  return gone_at();
}

machine_time persisted_run::gone_at() const {
  DDPRUN_ASSERT(record_);
  return since_ + record_->gone_after;
}

machine_time persisted_run::lost_at() const {
  DDPRUN_ASSERT(record_);
  return since_ + record_->lost_after;
}

std::optional<std::uint64_t> record_persistence::ask(const std::optional<run_record>& record) {
  if (record == newest_) return std::nullopt;
  newest_ = record;
  return ++revision_;
}

void record_persistence::set_persisted(std::uint64_t revision) {
  persisted_ = std::max(persisted_, revision);
}

bool record_persistence::is_persisted(const std::optional<run_record>& record) const {
  return persisted_ >= revision_ && record == newest_;
}

round_number round_numbers::highest() const {
  return std::max(newest_, floor_);
}

void round_numbers::begin_instance(round_number before_first) {
  newest_ = before_first;
  reserved_ = 0;
  reserve_ahead();
}

void round_numbers::take_next() {
  newest_ = highest() + 1;
  reserve(0);
  DDPRUN_ASSERT(newest_ <= reserved_);
}

void round_numbers::reserve_ahead() {
  reserve(rounds_block / 2);
}

// Makes sure that `least` numbers are left above the highest.
void round_numbers::reserve(round_number least) {
  if (highest() + least > reserved_ || reserved_ == 0) reserved_ = highest() + rounds_block;
}

void round_numbers::raise_newest(round_number said) {
  newest_ = std::max(newest_, said);
}

void round_numbers::raise_floor(round_number said) {
  floor_ = std::max(floor_, said);
}

members_by_name::members_by_name(std::uint32_t size, shared_list<std::string> names)
    : size_(size), names_(std::move(names)), missing_(size) {
  const std::vector<std::string>& all = names_.items();
  for (std::size_t index = 0; index < std::min<std::size_t>(all.size(), size_); ++index) {
    if (!all[index].empty()) ++short_of_[all[index]];
  }
}

void members_by_name::count(const std::string& name, bool is_here) {
  const auto found = short_of_.find(name);
  if (found == short_of_.end()) return;
  std::int64_t& short_of = found->second;
  if (is_here) {
    if (short_of-- > 0) --missing_;
  } else {
    if (++short_of > 0) ++missing_;
  }
}

std::vector<std::string> members_by_name::missing_names() const {
  std::vector<std::string> names;
  std::size_t named = 0;
  for (const auto& [name, short_of] : short_of_) {
    if (short_of <= 0) continue;
    named += static_cast<std::size_t>(short_of);
    if (names.size() < names_in_text_max) names.push_back(name);
  }
  if (named != missing_) return {};
  return names;
}

}  // namespace ddprun::core
