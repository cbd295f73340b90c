// What a successful worker leaves behind: processes of its group, and strays. They have their grace
// while nobody stops the round.
#include "launcher/process/worker_group_machine.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::launcher::workers {
namespace {

// Most notice the end of their parent and end at once: those are not worth a message.
constexpr std::chrono::seconds told_after{1};

}  // namespace

bool worker_group_machine::spares_children(place worker) const {
  const worker_life& one = lives_[worker];
  return one.succeeded() && !stopping_ && !one.children().is_over &&
         limits_.children != duration::zero();
}

// How long after the end of a successful worker to look for holders of its pipes.
duration worker_group_machine::first_look() const {
  const duration zero = duration::zero();
  if (!limits_.children || *limits_.children == zero) return limits_.drain;
  return std::min<duration>({limits_.drain, *limits_.children, told_after});
}

void worker_group_machine::look_for_children(place worker) {
  lives_.change(worker, [](worker_life& one) { one.drain_until(std::nullopt); });
  emit(look_at_children{worker});
}

void worker_group_machine::handle(const children_seen& what) {
  const worker_life& one = lives_[what.worker];
  if (one.phase() != worker_phase::draining || one.drain_until()) return;
  const bool is_drained = one.is_drained();
  if (!spares_children(what.worker)) {  // a stop has come meanwhile
    return is_drained ? end_group(what.worker) : let_go(what.worker);
  }
  // Strays may hold its pipes open.
  const std::size_t left = what.in_group + (is_drained ? 0 : what.strays);
  if (left > 0) return wait_for_children(what.worker, left);
  if (is_drained) return end_group(what.worker);
  if (!one.children().since && !one.children().is_looked_for) return drain_on(what.worker);
  if (!one.children().since) return let_go(what.worker);
  end_children(what.worker);  // their last output may still be unread
}

// The holder of its pipes is no process of ours.
void worker_group_machine::drain_on(place worker) {
  lives_.change(worker, [&](worker_life& one) {
    one.children().is_looked_for = true;
    one.drain_until(std::max(one.ended_at() + limits_.drain, now_ + look_pause(duration::zero())));
  });
}

void worker_group_machine::wait_for_children(place worker, std::size_t left) {
  DDPRUN_ASSERT(left > 0);
  if (!limits_.children) {
    emit(tell_left_behind{worker, leftover_state::kept});
    return leave_children(worker);
  }
  bool is_over = false;
  lives_.change(worker, [&](worker_life& one) {
    is_over = is_past(one.children(), worker);
    const time_point next = now_ + look_pause(now_ - *one.children().since);
    if (!is_over) one.drain_until(std::min(next, *one.children().since + *limits_.children));
  });
  if (!is_over) return;
  emit(signal_group{worker, SIGKILL});
  lives_[worker].is_drained() ? end_group(worker) : end_children(worker);
}

// From here on only its pipes are waited for, as for any worker.
void worker_group_machine::end_children(place worker) {
  lives_.change(worker, [&](worker_life& one) {
    one.children().is_over = true;
    one.drain_until(now_ + look_pause(duration::zero()));
  });
}

void worker_group_machine::leave_children(place worker) {
  if (!lives_[worker].is_drained()) emit(release_pipes{worker});
  emit(reap{worker});
  emit(forget_group{worker});
  lives_.change(worker, &worker_life::leave_children);
  tell(tell_ended{worker});
  look_anew();
}

bool worker_group_machine::spares_strays() const {
  return last_word_ && !stopping_ && !failed_ && !strays_.is_over &&
         limits_.children != duration::zero();
}

// A stop ends their grace: a user who waits for an upload has to be told.
void worker_group_machine::tell_stopped() {
  if (stopping_) return;
  for (place worker = 0; worker < lives_.size(); ++worker) {
    const worker_life& one = lives_[worker];
    const bool waits = one.phase() == worker_phase::draining && one.children().since;
    if (waits && spares_children(worker)) emit(tell_left_behind{worker, leftover_state::stopped});
  }
  if (spares_strays() && strays_.since)
    emit(tell_left_behind{std::nullopt, leftover_state::stopped});
}

// Call it if some are left. Reports them once, and once that their grace is over.
bool worker_group_machine::is_past(grace& of, std::optional<place> worker) {
  if (!of.since) of.since = of.begins.value_or(now_);
  if (now_ - *of.since >= *limits_.children) {
    of.is_over = true;
    emit(tell_left_behind{worker, leftover_state::ended});
    return true;
  }
  if (!of.is_told && now_ - *of.since >= told_after) {
    of.is_told = true;
    emit(tell_left_behind{worker, leftover_state::spared});
  }
  return false;
}

}  // namespace ddprun::launcher::workers
