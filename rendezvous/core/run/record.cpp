// What of a run outlives its daemon: the record that is kept, what waits for that, and what a
// daemon makes of the record of the one before.
//
// Kept are the instance, the numbers that its rounds may have, what was charged, who may live on,
// and how it ended. Numbers are reserved ahead, and a failure is charged when it is reported, so
// that all is kept by the time that the next round starts. Two things wait for it: workers are not
// started, and nobody is told of an end, before it is kept.
//
// An instance that was open when its daemon died is waited for. The word of agents that come back
// counts more than the record, which may be an old copy. If only others have come when the time is
// over, the instance goes on with them: at once, if it had no round or they are as many as its
// newest had (all have died together, and the same commands were started again); else when no
// worker can live any longer of those that are missing. If nobody has come at all, it is lost.
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/core/run/persisted_run.hpp"
#include "rendezvous/core/run/record_persistence.hpp"
#include "rendezvous/core/run/round_numbers.hpp"
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {

void go_on_from(current_instance& current, round_numbers& rounds, const run_record& record) {
  rounds.set_reserved(record.rounds_reserved);
  current.budget.set_restarts_used(record.restarts_used);
  current.budget.set_restarts_forgiven(record.restarts_forgiven);
  current.placed = {record.nodes, record.gone_after};
}

void run::state::remember(const run_record& record) {
  records.begin_with(record);
  current.job = record.job;
  if (!record.end && !is_same_job(record.job, options.opened_by)) return claims.end_wait();
  go_on_from(current, rounds, record);
  if (!record.end) {
    earlier.begin(record, clock.own(options.began));
    rounds.raise_floor(rounds.reserved());
    if (record.nodes == 0) claims.end_wait();
    return;
  }
  claims.end_wait();
  phase.enter(run_phase::closed, clock.own(options.began));
  current.id = record.instance;
  current.last_end = record.end->text;
  closed_instance over;
  over.instance = current.id;
  over.exit_code = record.end->exit_code;
  over.text = record.end->text;
  over.round = rounds.reserved();
  over.restarts_used = current.budget.restarts_used();
  over.restarts_forgiven = current.budget.restarts_forgiven();
  over.closed_at = options.began;
  over.job = record.job;
  over.left.round = rounds.reserved();
  over.left.unknown = record.nodes;
  if (record.nodes != 0) over.left.until = options.began + record.gone_after;
  over.left.is_held = record.nodes != 0;
  over.left.let_go_limit = record.gone_after;
  closed.add(std::move(over));
}

// Of those who are here nobody knows of a round.
void run::state::begin_instance(const node& opener) {
  if (!earlier.is_there() || is_record_of_another()) {
    return open_instance(opener.fresh_instance, opener.greeting.job);
  }
  const persisted_run before = earlier;
  open_instance(before.record()->instance, before.record()->job);
  if (before.record()->job) current.job = before.record()->job;
  earlier = before;
  go_on_from(current, rounds, *before.record());
  // Its members may still come, until others are placed: whatever round they name is more than is
  // known here, also of an old copy that says that there was none.
  current.is_found = true;
  note(note_level::info,
       "none of its nodes has come back: the run goes on from what was persisted, with " +
           counted(current.budget.restarts_used(), "restart") + " used and rounds above " +
           std::to_string(rounds.floor()));
}

// Until then workers may live of the round that an earlier daemon had.
std::optional<machine_time> remembered_until(const persisted_run& earlier,
                                             const gathering& groups) {
  return earlier.living_until(groups.here());
}

timer_moment lost_instance_at(const current_instance& current, const persisted_run& earlier,
                              const roster& nodes) {
  if (!earlier.is_there() || current.is_decided() || !nodes.empty()) return std::nullopt;
  return earlier.lost_at();
}

void run::state::end_lost_instance() {
  current.id = earlier.record()->instance;
  current.placed.count = 0;
  close(1, std::nullopt,
        "lost: the rendezvous daemon was started again, and no node of this run has come back "
        "within " +
            to_text(earlier.record()->lost_after));
}

// The node that hosts this daemon dies with it, and then the others let go of each other.
void run::state::note_placed() {
  current.placed.count = static_cast<std::uint32_t>(memberships.size());
  const bool is_hosted = std::any_of(
      memberships.begin(), memberships.end(),
      [](const membership& one) { return one.holder() != nullptr && one.holder()->hosts_us; });
  current.placed.gone_after =
      is_hosted ? with_margin(2 * timing().isolation_limit) : timing().orphan_limit;
}

run_record record_of(const run_options& options, const current_instance& current,
                     const round_numbers& rounds, const closed_instance& over) {
  run_record record;
  record.run_id = options.run_id;
  record.instance = over.instance;
  record.rounds_reserved = std::max(rounds.reserved(), over.round);
  record.restarts_used = over.restarts_used;
  record.restarts_forgiven = over.restarts_forgiven;
  if (over.left.until > over.closed_at) {
    record.nodes = std::max(current.placed.count, 1U);
    record.gone_after = over.left.until - over.closed_at;
  }
  record.end = run_end{over.exit_code, over.text};
  record.job = over.job;
  return record;
}

// Of an instance that has placed nobody: who may live on of those before it, whoever they are.
void run::state::remember_older(run_record& record) const {
  time_point until = older_until();
  if (!older.ending().empty()) until = std::max(until, current.opened_at + timing().orphan_limit);
  if (until <= real_now) return;
  record.nodes = nodes_per_run_max;
  record.gone_after = until - current.opened_at;
}

std::optional<run_record> run::state::record_now() const {
  if (phase == run_phase::closed) {
    if (closed.empty() || closed.newest().instance != current.id) return std::nullopt;
    return record_of(options, current, rounds, closed.newest());
  }
  if (!current.is_decided()) {
    if (earlier.is_there() || closed.empty()) return earlier.record();
    return record_of(options, current, rounds,
                     closed.newest());  // what came after it has gone without a round
  }
  // Until it has a round of its own, no less is known than before.
  if (!current.settings && earlier.is_there()) return earlier.record();
  run_record record;
  record.run_id = options.run_id;
  record.instance = current.id;
  record.rounds_reserved = rounds.reserved();
  record.restarts_used = current.budget.restarts_used();
  record.restarts_forgiven = current.budget.restarts_forgiven();
  record.job = current.job;
  record.nodes = current.placed.count;
  record.gone_after = current.placed.gone_after;
  record.lost_after =
      current.settings ? current.settings->timing.orphan_limit : timers().orphan_limit;
  if (!current.settings) remember_older(record);
  if (phase == run_phase::stopping && !stop.is_free() && !current.operator_stop) {
    const std::optional<cause>& why = causes.get();
    const bool is_charged = why && is_charged_as_restart(why->kind);
    if (is_charged && !current.budget.is_spent(current.settings->restarts_max))
      ++record.restarts_used;
  }
  return record;
}

bool run::state::is_recorded() const {
  return !options.persists_records || records.is_kept(record_now());
}

void run::state::persist() {
  if (!options.persists_records) return;
  std::optional<run_record> record = record_now();
  if (const auto revision = records.ask(record)) {
    effects->push_back(persist_record{*revision, std::move(record)});
  }
}

void run::state::order_close(node& who, message_pointer message) {
  if (is_recorded()) return want(who, std::move(message));
  who.owed = std::move(message);
}

std::optional<machine_time> persisted_run::living_until(std::uint32_t nodes_here) const {
  if (!record_ || nodes_here >= record_->nodes) return std::nullopt;
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
  kept_ = std::max(kept_, revision);
}

bool record_persistence::is_kept(const std::optional<run_record>& record) const {
  return kept_ >= revision_ && record == newest_;
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

// So many are left after this.
void round_numbers::reserve(round_number least) {
  if (highest() + least > reserved_ || reserved_ == 0) reserved_ = highest() + rounds_block;
}

void round_numbers::raise_newest(round_number said) {
  newest_ = std::max(newest_, said);
}

void round_numbers::raise_floor(round_number said) {
  floor_ = std::max(floor_, said);
}

}  // namespace ddprun::core
