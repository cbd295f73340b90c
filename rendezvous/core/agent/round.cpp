// A round at one node: the leader's service, the place, the spawn, and how the workers end.
#include "rendezvous/core/agent/state.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/peer_words.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

bool agent::state::in_round() const {
  switch (phase) {
    case member_phase::preparing:
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::succeeded:
    case member_phase::failed:
    case member_phase::stopping:
      return true;
    case member_phase::joined:
    case member_phase::stopped:
    case member_phase::lost:
      return false;
  }
  return false;
}

bool agent::state::is_leader() const {
  return phase == member_phase::preparing || (place && place->slot == 0);
}

bool agent::state::is_alone() const {
  return is_leader() && group_world_size <= 1;
}

void agent::state::begin_round(round_number number) {
  forget_round();
  round = number;
  entered_instance = instance;
  entered_round = number;
  round_began = now;
}

// What belonged to the last round goes, but for its number.
void agent::state::forget_round() {
  if (service_wanted) emit(close_service{round});
  phase = member_phase::joined;
  place.reset();
  group_world_size = 0;
  service_wanted = false;
  service_port = 0;
  master_port = 0;
  nccl_ids.clear();
  causes.clear();
  tail_seq = 0;
  tail_told = false;
  asked.clear();
  asked_until.reset();
  ended.clear();
  living = 0;
  unkillable = 0;
  asked_to_stop = false;
  killed = false;
  tether = {};
  held = {};
  frozen_vouch.reset();
  thaw_until.reset();
  orphaned = false;
  all_succeeded = false;
}

void agent::state::handle(const service_opened& event) {
  if (event.round != round || phase != member_phase::preparing) return;
  service_port = event.service_port;
  master_port = event.master_port;
  nccl_ids = event.nccl_ids;
  if (nccl_ids.size() > nccl_ids_max) nccl_ids.resize(nccl_ids_max);
  changed = true;
}

void agent::state::handle(const service_failed& event) {
  if (event.round != round || !service_wanted || !in_round()) return;
  if (phase == member_phase::stopping || phase == member_phase::succeeded) {
    note(note_level::warning,
         "the job store of round " + std::to_string(round) + " ended: " + event.text);
    return;
  }
  ddprun::cause why;
  why.kind = cause_class::start;
  why.text = event.text;
  service_wanted = false;
  service_port = 0;
  fail(std::move(why));
}

void agent::state::take_place(const assignment& value) {
  changed = true;
  round_began = now;
  phase = member_phase::assigned;
  place = value;
  group_world_size = value.group_world_size;
  const bool leads = value.slot == 0;
  const bool sound =
      value.slot < value.group_world_size && value.group_world_size <= nodes_per_run_max &&
      has_ranks_for(value, options.greeting.worker_count) &&
      (leads ? service_port != 0 : value.tether_port != 0 && !value.master_address.empty());
  if (!sound) {
    ddprun::cause why;
    why.kind = cause_class::start;
    why.text = "the rendezvous daemon's assignment for round " + std::to_string(round) +
               " makes no sense here: group rank " + std::to_string(value.slot) + " of " +
               std::to_string(value.group_world_size) + ", ranks from " +
               std::to_string(value.rank_first) + " of " + std::to_string(value.world_size);
    place.reset();
    fail(std::move(why));
    return;
  }
  if (leads) {
    spawn_when_vouched();
  } else {
    tether.wanted = true;
    dial(duration::zero());
  }
}

// Workers are never started on an old word: an agent that stood still may read an assignment of a
// round that is long over.
void agent::state::spawn_when_vouched() {
  const bool leader_answered = is_leader() || tether.vouched;
  if (phase != member_phase::assigned || !leader_answered || !vouched()) return;
  changed = true;
  phase = member_phase::starting;
  living = options.greeting.worker_count;
  ended.assign(living, false);
  emit(start_workers{instance, round, *place, restarts_used});
}

void agent::state::handle(const workers_started& event) {
  if (event.round != round || phase != member_phase::starting) return;
  phase = member_phase::running;
  changed = true;
}

void agent::state::handle(const worker_ended& event) {
  if (event.round != round || event.local_rank >= ended.size() || ended[event.local_rank]) return;
  ended[event.local_rank] = true;
  --living;
  if (unkillable > living) {
    unkillable = living;
    changed = true;
  }
  if (!event.success) {
    ddprun::cause why = event.cause;
    why.local_rank = event.local_rank;
    if (place) why.rank = place->rank_first + event.local_rank;
    worker_failed(std::move(why));
  }
  if (living > 0) return;
  if (asked_to_stop) {
    after_workers();
  } else if (!asked_until && (phase == member_phase::starting || phase == member_phase::running)) {
    phase = member_phase::succeeded;
    all_succeeded = true;
    changed = true;
    leave_if_drained();
  }
}

void agent::state::worker_failed(ddprun::cause why) {
  const bool is_ours = asked_to_stop && now - std::max(why.age, duration::zero()) >= asked_at;
  const bool is_drain = out.is_draining() && is_end_by(why, out.signal());
  if (!is_ours && !is_drain) {
    if (!out.is_draining() && !killed && is_end_by_request(why))
      return wait_for_own_signal(std::move(why));
    // Where it had died before the stop: what held it up was the reading of its last output.
    return asked_to_stop ? remember(std::move(why)) : fail(std::move(why));
  }
  if (!causes.empty()) return;
  // One is enough to show that the stop arrived; the rest would only make the status long. It goes
  // with the word that all have ended.
  why.by_our_stop = true;
  const bool has_news = changed;
  remember(std::move(why));
  changed = has_news;
}

void agent::state::wait_for_own_signal(ddprun::cause why) {
  const time_point at = now - std::max(why.age, duration::zero());
  if (asked.size() < causes_max) asked.push_back(seen_cause{std::move(why), at});
  if (!asked_until) asked_until = now + own_signal_wait;
}

// No signal has come: somebody ended these workers alone.
void agent::state::take_as_failures() {
  if (!asked_until) return;
  asked_until.reset();
  for (seen_cause& one : std::exchange(asked, {})) {
    one.cause.age = now - one.at;
    if (asked_to_stop) {
      remember(std::move(one.cause));
    } else {
      fail(std::move(one.cause));
    }
  }
}

// This node is asked to leave, and its workers were with it.
void agent::state::take_as_drain() {
  if (!asked_until) return;
  asked_until.reset();
  for (seen_cause& one : std::exchange(asked, {})) {
    one.cause.age = now - one.at;
    one.cause.by_our_stop = is_end_by(one.cause, out.signal());
    if (!one.cause.by_our_stop || causes.empty()) remember(std::move(one.cause));
  }
}

// The rest of this node's workers run on until the daemon says stop, which is at once.
void agent::state::fail(ddprun::cause why) {
  remember(std::move(why));
  if (phase == member_phase::failed) return;
  phase = member_phase::failed;
  failed_at = now;
}

void agent::state::remember(ddprun::cause why) {
  const time_point at = now - std::clamp(why.age, duration::zero(), age_max);
  auto where = causes.begin();
  while (where != causes.end() && !comes_before(why, at, where->cause, where->at))
    ++where;
  if (where == causes.end() && causes.size() >= causes_max) return;
  why.round = round;
  why.slot = place ? place->slot : 0;
  why.node = options.greeting.node;
  if (where != causes.begin() || why.by_our_stop) why.tail.clear();
  if (why.tail.size() > tail_bytes_max) {
    std::size_t cut = why.tail.size() - tail_bytes_max;
    // Not inside a character: the continuation bytes of UTF-8 are 10xxxxxx.
    while (cut < why.tail.size() && (static_cast<unsigned char>(why.tail[cut]) & 0xC0U) == 0x80U) {
      ++cut;
    }
    why.tail.erase(0, cut);
  }
  if (where == causes.begin()) {
    tail_seq = 0;
    tail_told = false;
  }
  causes.insert(where, seen_cause{std::move(why), at});
  if (causes.size() > causes_max) causes.pop_back();
  // One tail is told: that of the first.
  if (causes.size() > 1) causes[1].cause.tail.clear();
  changed = true;
}

}  // namespace ddprun::core
