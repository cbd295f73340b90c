#include "launcher/process/worker_group_machine.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher::workers {
namespace {

constexpr std::chrono::milliseconds pause_between_tries{100};

constexpr std::chrono::milliseconds look_pause_min{1};
constexpr std::chrono::milliseconds look_pause_max{1000};

// Most of what a success leaves behind notices the end of its parent and ends at once: that is not
// worth a message.
constexpr std::chrono::seconds told_after{1};

}  // namespace

worker_group_machine::worker_group_machine(limits values, std::size_t workers)
    : limits_(values), lives_(workers) {
  DDPRUN_ASSERT(values.drain > duration::zero());
}

void worker_group_machine::step(const event& what, time_point now, effects& to) {
  if (over_) return;
  now_ = now;
  clock.set(now);
  effects_ = &to;
  std::visit([this](const auto& value) { handle(value); }, what);
  for (const auto& one : timer_table()) {
    if (!over_) do_if_due(*this, one);
  }
  check();
  effects_ = nullptr;
}

std::optional<time_point> worker_group_machine::next_deadline() const {
  if (over_) return std::nullopt;
  return next_due(*this, timer_table());
}

// In the order in which they are checked, after every event.
std::span<const machine_timer<worker_group_machine>> worker_group_machine::timer_table() {
  using machine = worker_group_machine;
  static constexpr machine_timer<machine> table[] = {
      // Starting a program failed for lack of a resource.
      {[](const machine& group) -> timer_moment { return group.queue_.retry_at; },
       &machine::try_again},
      // Another process holds the pipes of an ended worker open.
      {[](const machine& group) -> timer_moment { return group.first_drain_until(); },
       &machine::on_drain_limits},
      // Some process of the workers may still run; one question at a time.
      {[](const machine& group) -> timer_moment {
         const bool waits = group.looks_.asked == looks::question::none;
         return waits ? timer_moment(group.looks_.next) : std::nullopt;
       },
       &machine::look},
  };
  return table;
}

void worker_group_machine::handle(const start_asked&) {
  start_next();
}

void worker_group_machine::try_again() {
  queue_.retry_at.reset();
  start_next();
}

void worker_group_machine::start_next() {
  if (queue_.closed) return;
  if (queue_.next == lives_.size()) return emit(tell_all_started{});
  queue_.searching = true;
  emit(find_program{queue_.next});
}

void worker_group_machine::handle(const program_found& what) {
  if (!queue_.searching || what.worker != queue_.next) return;  // the search was cancelled
  queue_.searching = false;
  lives_.change(what.worker, &worker_life::begin);
  emit(spawn{what.worker});
}

void worker_group_machine::handle(const executed& what) {
  lives_.change(what.worker, &worker_life::execute);
  queue_.short_since.reset();
  ++queue_.next;
  start_next();
}

void worker_group_machine::handle(const start_failed& what) {
  const bool was_sought = lives_[what.worker].phase() == worker_phase::waiting;
  if (was_sought && (!queue_.searching || what.worker != queue_.next))
    return;  // the search was cancelled
  queue_.searching = false;
  if (!was_sought) {
    emit(release_pipes{what.worker});
    emit(forget_group{what.worker});
  }
  if (tries_again(what)) return;
  lives_.change(what.worker, &worker_life::give_up);
  failed_ = true;
  tell(tell_start_failed{what.worker, what.why});
  close_queue();
}

bool worker_group_machine::tries_again(const start_failed& what) {
  if (queue_.closed || !is_shortage(what.why.error)) return false;
  const bool is_first = !queue_.short_since;
  if (is_first) queue_.short_since = now_;
  if (now_ - *queue_.short_since >= limits_.shortage) return false;
  lives_.change(what.worker, &worker_life::wait_again);
  queue_.retry_at = now_ + pause_between_tries;
  if (is_first) emit(tell_short_of{what.why});
  return true;
}

// Gives up all workers that wait for their turn.
void worker_group_machine::close_queue() {
  if (std::exchange(queue_.searching, false)) emit(forget_search{});
  queue_.retry_at.reset();
  queue_.closed = true;
  for (place worker = queue_.next; worker < lives_.size(); ++worker) {
    if (lives_[worker].phase() != worker_phase::waiting) continue;
    lives_.change(worker, &worker_life::give_up);
    tell(tell_not_started{worker});
  }
  if (last_word_) look_anew();
}

void worker_group_machine::handle(const stop_asked& what) {
  if (over_) return;
  tell_stopped();
  stopping_ = true;
  if (what.signal == SIGKILL) killing_ = true;
  for (place worker = 0; worker < lives_.size(); ++worker) {
    const worker_life& one = lives_[worker];
    if (!one.may_be_signalled()) continue;
    // A worker that hangs in exec might run its program long after the round.
    const bool is_starting = one.phase() == worker_phase::starting;
    emit(signal_group{worker, is_starting ? SIGKILL : what.signal});
    if (one.phase() != worker_phase::draining) continue;
    emit(hurry_pipes{worker});
    if (one.is_drained()) end_group(worker);
  }
  close_queue();
  if (killing_) look_anew();
}

void worker_group_machine::check() const {
  // Workers are started one after the other, and none is forgotten.
  DDPRUN_ASSERT(lives_.count(worker_phase::starting) <= 1);
  DDPRUN_ASSERT(last_word_.has_value() == (lives_.are_done() && !over_));
  DDPRUN_ASSERT(!stopping_ || queue_.closed);
  DDPRUN_ASSERT(!queue_.closed || (!queue_.searching && !queue_.retry_at));
  const auto next = next_deadline();
  DDPRUN_ASSERT(!next || *next > now_);
  // Either an answer is open or a deadline is set: the machine never stalls.
  const bool is_waited_for = next || queue_.searching || looks_.asked != looks::question::none ||
                             lives_.count(worker_phase::starting, worker_phase::draining) > 0;
  DDPRUN_ASSERT(over_ || is_waited_for);
}

// The pause grows with the time so far, so that looks cost only a fraction of it.
duration look_pause(duration so_far) {
  constexpr int look_share = 8;
  return std::clamp<duration>(so_far / look_share, look_pause_min, look_pause_max);
}

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
  if (stopping_) look_anew();  // strays may hold the pipes open
}

// The pipes stay open, because the worker lives on; its output so far belongs to this round. The
// guardian keeps its group, so that it dies with the agent.
void worker_group_machine::handle(const left& what) {
  if (!stopping_ || lives_[what.worker].phase() != worker_phase::running) return;
  emit(release_pipes{what.worker});
  lives_.change(what.worker, &worker_life::leave);
  last_exit_ = now_;
  tell(tell_ended{what.worker});
  look_anew();
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

// While our own reader holds back the output of a successful worker, and no other node waits for
// this one, no output is given up.
void worker_group_machine::handle(const reader_seen& what) {
  const worker_life& one = lives_[what.worker];
  if (one.phase() != worker_phase::draining) return;
  const bool is_first = spares_children(what.worker) && !one.children().is_looked_for;
  const duration limit = is_first ? first_look() : limits_.drain;
  const time_point until = what.holds_back ? now_ + limit : one.ended_at() + limit + what.held_back;
  const bool is_past = until <= now_;
  if (is_past && spares_children(what.worker)) {
    // The time in which our own reader held the output back does not count as grace.
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

// The leader is a zombie here, so the group's ID is still ours.
void worker_group_machine::end_group(place worker) {
  emit(signal_group{worker, SIGKILL});
  emit(reap{worker});
  lives_.change(worker, &worker_life::die);
  look_anew();
}

void worker_group_machine::look_anew() {
  looks_.since = now_;
  looks_.next = now_;
}

// What a successful worker leaves behind, in its group and as strays, has its grace while nobody
// stops the round.
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

// One look covers all that is dying, and mostly finds nothing left. Children that were just killed
// need a moment, or longer if they use a device, and no handle reports the end of the last process
// of a group.
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

// Strays belong to the round, and a running worker may need them: so they are killed only when no
// worker needs them any more.
void worker_group_machine::look_for_strays() {
  const bool none_runs = lives_.count(worker_phase::starting, worker_phase::running) == 0;
  // When many workers are killed at once, their ends do not each cause a look at strays.
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
  if (!spares_strays()) return look_for_strays();  // a stop has come meanwhile
  if (!limits_.children) {
    emit(tell_left_behind{std::nullopt, leftover_state::kept});
    return end_look(false);
  }
  // Strays share the grace of the processes in the groups; it does not start again for them.
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
  end_look(stopping_);  // an unexpected end must not delay the other nodes
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

// The event about the last worker is delayed until its strays are gone.
void worker_group_machine::tell(effect word) {
  if (lives_.are_done()) {
    last_word_ = std::move(word);
  } else {
    emit(std::move(word));
  }
}

}  // namespace ddprun::launcher::workers
