// How workers end: drained, their groups and strays killed, the last word held back until then.
#include "launcher/process/worker_group_machine.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher::workers {
namespace {

constexpr std::chrono::milliseconds look_pause_min{1};
constexpr std::chrono::milliseconds look_pause_max{1000};

}  // namespace

// A look at what is dying costs little beside the time that it has taken so far.
duration look_pause(duration so_far) {
  constexpr int look_share = 8;
  return std::clamp<duration>(so_far / look_share, look_pause_min, look_pause_max);
}

// ---- draining --------------------------------------------------------------------------------

std::optional<time_point> worker_group_machine::first_drain_until() const {
  std::optional<time_point> first;
  if (lives_.count(worker_phase::draining) == 0) return first;
  for (place worker = 0; worker < lives_.size(); ++worker) {
    const std::optional<time_point> until = lives_[worker].drain_until();
    if (until && (!first || *until < *first)) first = until;
  }
  return first;
}

void worker_group_machine::on_drain_limits() {
  for (place worker = 0; worker < lives_.size(); ++worker) {
    const std::optional<time_point> until = lives_[worker].drain_until();
    if (until && now_ >= *until) on_drain_limit(worker);
  }
}

void worker_group_machine::handle(const exited& what) {
  const duration limit = what.success && !stopping_ ? first_look() : limits_.drain;
  lives_.change(what.worker, [&](worker_life& one) { one.exit(what.success, now_, limit); });
  if (!what.success) failed_ = true;
  last_exit_ = now_;
  if (!what.success || stopping_) {
    emit(signal_group{what.worker, SIGKILL});
    emit(hurry_pipes{what.worker});
  }
  judge_drained(what.worker);
  if (stopping_) look_anew();  // strays may hold the pipes
}

void worker_group_machine::handle(const pipe_ended& what) {
  lives_.change(what.worker, [&](worker_life& one) { one.close(what.which); });
  judge_drained(what.worker);
}

void worker_group_machine::judge_drained(place worker) {
  const worker_life& one = lives_[worker];
  if (one.phase() != worker_phase::draining || !one.is_drained()) return;
  spares_children(worker) ? look_for_children(worker) : end_group(worker);
}

void worker_group_machine::on_drain_limit(place worker) {
  const worker_life& one = lives_[worker];
  const bool is_for_children = one.is_drained() || one.children().since;
  if (is_for_children && spares_children(worker)) return look_for_children(worker);
  lives_.change(worker, [](worker_life& asked) { asked.drain_until(std::nullopt); });
  emit(ask_reader{worker});
}

// While our own reader holds the output of a success back, and nobody waits for this node, no byte
// is given up.
void worker_group_machine::handle(const reader_seen& what) {
  const worker_life& one = lives_[what.worker];
  if (one.phase() != worker_phase::draining) return;
  const bool is_first = spares_children(what.worker) && !one.children().is_looked_for;
  const duration limit = is_first ? first_look() : limits_.drain;
  const time_point until = what.holds_back ? now_ + limit : one.ended_at() + limit + what.held_back;
  const bool is_past = until <= now_;
  if (is_past && spares_children(what.worker)) {
    // While our own reader held the output back the grace did not run.
    const time_point began = one.ended_at() + what.held_back;
    lives_.change(what.worker, [&](worker_life& waiting) { waiting.children().begins = began; });
    return look_for_children(what.worker);
  }
  if (!one.succeeded() || stopping_ || is_past) return let_go(what.worker);
  lives_.change(what.worker, [until](worker_life& waiting) { waiting.drain_until(until); });
}

void worker_group_machine::let_go(place worker) {
  emit(release_pipes{worker});
  end_group(worker);
}

// The leader is a zombie here, so the group's number is still ours.
void worker_group_machine::end_group(place worker) {
  emit(signal_group{worker, SIGKILL});
  emit(reap{worker});
  lives_.change(worker, &worker_life::die);
  look_anew();
}

// ---- looks -----------------------------------------------------------------------------------

void worker_group_machine::look_anew() {
  looks_.since = now_;
  looks_.next = now_;
}

// One look for all that is dying. Almost always the first finds nobody. Children that were just
// killed need a moment, on a device a long one, and no handle tells when the last of a group is
// gone.
void worker_group_machine::look() {
  looks_.next.reset();
  std::vector<place> dying;
  const std::size_t wanted = lives_.count(worker_phase::dying);
  for (place worker = 0; dying.size() < wanted; ++worker) {
    if (lives_[worker].phase() == worker_phase::dying) dying.push_back(worker);
  }
  if (dying.empty()) return look_for_strays();
  looks_.asked = looks::question::groups;
  emit(look_at_groups{std::move(dying)});
}

void worker_group_machine::handle(const groups_seen& what) {
  DDPRUN_ASSERT(looks_.asked == looks::question::groups);
  looks_.asked = looks::question::none;
  for (const place worker : what.empty) {
    lives_.change(worker, &worker_life::end);
    emit(forget_group{worker});
    tell(tell_ended{worker});
  }
  look_for_strays();
}

// They are killed once they may be: they belong to the round, and a worker that runs may want them.
void worker_group_machine::look_for_strays() {
  const bool none_runs = lives_.count(worker_phase::starting, worker_phase::running) == 0;
  // The ends of many workers that are killed at once do not each ask for all.
  const bool all_must_die = killing_ && now_ - looks_.since >= look_pause_min;
  const bool may_die = all_must_die || last_word_ || (stopping_ && none_runs);
  if (!limits_.has_strays || !may_die) return end_look(false);
  if (!spares_strays()) return kill_all_strays();
  looks_.asked = looks::question::count;
  emit(count_strays{});
}

void worker_group_machine::kill_all_strays() {
  looks_.asked = looks::question::strays;
  emit(kill_strays{});
}

void worker_group_machine::handle(const strays_counted& what) {
  DDPRUN_ASSERT(looks_.asked == looks::question::count);
  looks_.asked = looks::question::none;
  if (what.left == 0) return end_look(false);
  if (!spares_strays()) return look_for_strays();  // a stop has come
  if (!limits_.children) {
    emit(tell_left_behind{std::nullopt, fate::kept});
    return end_look(false);
  }
  // The same time as what is in the groups has, not one after the other.
  if (!strays_.since) strays_.since = last_exit_;
  if (!is_past(strays_, std::nullopt)) return end_look(true);
  looks_.since = now_;
  kill_all_strays();
}

void worker_group_machine::handle(const strays_seen& what) {
  DDPRUN_ASSERT(looks_.asked == looks::question::strays);
  looks_.asked = looks::question::none;
  if (what.left == 0) return end_look(false);
  if (now_ - looks_.since < limits_.strays) return end_look(true);
  if (last_word_ && !std::exchange(named_strays_, true)) emit(tell_strays_stay{});
  end_look(stopping_);  // where nobody asked for the end, the others wait to hear of it
}

void worker_group_machine::end_look(bool strays_live) {
  if (last_word_ && !strays_live) {
    emit(std::move(*std::exchange(last_word_, std::nullopt)));
    emit(tell_all_ended{});
    over_ = true;
    return;
  }
  const bool some_die = lives_.count(worker_phase::dying) > 0;
  const bool killing_some =
      killing_ && lives_.count(worker_phase::starting, worker_phase::draining) > 0;
  if (!some_die && !strays_live && !killing_some) return;
  looks_.next = now_ + look_pause(now_ - looks_.since);
}

// The word about the last worker is held back until its strays are gone.
void worker_group_machine::tell(effect word) {
  if (lives_.are_done()) {
    last_word_ = std::move(word);
  } else {
    emit(std::move(word));
  }
}

}  // namespace ddprun::launcher::workers
