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
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {

void run::state::go_on_from(const run_record& record) {
  rounds_reserved = record.rounds_reserved;
  restarts_used = record.restarts_used;
  nodes_placed = record.nodes;
  placed_gone_after = record.gone_after;
}

void run::state::remember(const run_record& record) {
  records.begin_with(record);
  go_on_from(record);
  remembered_at = options.began;
  if (!record.end) {
    remembered = record;
    round_floor = rounds_reserved;
    if (record.nodes == 0) recovering_until = {};
    return;
  }
  recovering_until = {};
  phase = run_phase::closed;
  phase_since = options.began;
  instance = record.instance;
  last_end = record.end->text;
  closed_instance over;
  over.instance = instance;
  over.exit_code = record.end->exit_code;
  over.text = record.end->text;
  over.round = rounds_reserved;
  over.restarts_used = restarts_used;
  over.closed_at = options.began;
  over.left.round = rounds_reserved;
  over.left.unknown = record.nodes;
  if (record.nodes != 0) over.left.until = options.began + record.gone_after;
  over.left.is_held = record.nodes != 0;
  over.left.let_go_limit = record.gone_after;
  closed.add(std::move(over));
}

// Of those who are here nobody knows of a round.
void run::state::begin_instance(instance_id fresh) {
  if (!remembered) return open_instance(fresh);
  const run_record before = *remembered;
  open_instance(before.instance);
  remembered = before;
  go_on_from(before);
  // Its members may still come, until others are placed: whatever round they name is more than is
  // known here, also of an old copy that says that there was none.
  is_found = true;
  note(note_level::info,
       "nobody has come back who was in it: the run goes on from what was kept, with " +
           std::to_string(restarts_used) + " restarts used and rounds above " +
           std::to_string(round_floor));
}

// Until then workers may live of the round that an earlier daemon had.
time_point run::state::remembered_until() const {
  if (!remembered || groups.here() >= remembered->nodes) return {};
  return remembered_at + remembered->gone_after;
}

std::optional<time_point> run::state::lost_instance_at() const {
  if (!remembered || instance != 0 || !nodes.empty()) return std::nullopt;
  return remembered_at + remembered->lost_after;
}

void run::state::end_lost_instance() {
  instance = remembered->instance;
  nodes_placed = 0;
  close(1, std::nullopt,
        "lost: the rendezvous daemon was started again, and no node of this run has come back "
        "within " +
            to_text(remembered->lost_after));
}

// At least so many numbers are left after this; 0: that of the newest round is reserved.
void run::state::reserve_rounds(round_number least) {
  const round_number newest = std::max(round, round_floor);
  if (newest + least > rounds_reserved || rounds_reserved == 0) {
    rounds_reserved = newest + rounds_block;
  }
}

// Who hosts this daemon dies with it, and then the others let go of each other.
void run::state::note_placed() {
  nodes_placed = static_cast<std::uint32_t>(seats.size());
  const bool is_hosted = std::any_of(seats.begin(), seats.end(), [](const seat& one) {
    return one.holder() != nullptr && one.holder()->hosts_us;
  });
  placed_gone_after = is_hosted ? with_margin(2 * timing().isolation_limit) : timing().orphan_limit;
}

run_record run::state::record_of(const closed_instance& over) const {
  run_record record;
  record.run_id = options.run_id;
  record.instance = over.instance;
  record.rounds_reserved = std::max(rounds_reserved, over.round);
  record.restarts_used = over.restarts_used;
  if (over.left.until > over.closed_at) {
    record.nodes = std::max(nodes_placed, 1U);
    record.gone_after = over.left.until - over.closed_at;
  }
  record.end = run_end{over.exit_code, over.text};
  return record;
}

// Of an instance that has placed nobody: who may live on of those before it, whoever they are.
void run::state::remember_older(run_record& record) const {
  time_point until = older_until();
  if (!ending.empty()) until = std::max(until, opened_at + timing().orphan_limit);
  if (until <= now) return;
  record.nodes = nodes_per_run_max;
  record.gone_after = until - opened_at;
}

std::optional<run_record> run::state::record_now() const {
  if (phase == run_phase::closed) {
    if (closed.empty() || closed.newest().instance != instance) return std::nullopt;
    return record_of(closed.newest());
  }
  if (instance == 0) {
    if (remembered || closed.empty()) return remembered;
    return record_of(closed.newest());  // what came after it has gone without a round
  }
  // Until it has a round of its own, no less is known than before.
  if (!settings && remembered) return remembered;
  run_record record;
  record.run_id = options.run_id;
  record.instance = instance;
  record.rounds_reserved = rounds_reserved;
  record.restarts_used = restarts_used;
  record.nodes = nodes_placed;
  record.gone_after = placed_gone_after;
  record.lost_after = settings ? settings->timing.orphan_limit : timers().orphan_limit;
  if (!settings) remember_older(record);
  if (phase == run_phase::stopping && !stop.is_free() && !operator_stop) {
    const std::optional<cause>& why = causes.get();
    const bool is_charged = why && is_charged_as_restart(why->kind);
    if (is_charged && restarts_used < settings->restarts_max) ++record.restarts_used;
  }
  return record;
}

bool run::state::is_recorded() const {
  return !options.keeps_records || records.is_kept(record_now());
}

void run::state::keep_record() {
  if (!options.keeps_records) return;
  std::optional<run_record> record = record_now();
  if (const auto revision = records.ask(record)) {
    effects->push_back(persist_record{*revision, std::move(record)});
  }
}

void run::state::order_close(node& who, message_pointer message) {
  if (is_recorded()) return want(who, std::move(message));
  who.owed = std::move(message);
}

}  // namespace ddprun::core
