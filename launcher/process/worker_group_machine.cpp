#include "launcher/process/worker_group_machine.hpp"

#include <csignal>
#include <utility>

namespace ddprun::launcher::workers {
namespace {

constexpr std::chrono::milliseconds pause_between_tries{100};

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

// In the order in which they are judged, after every event.
std::span<const machine_timer<worker_group_machine>> worker_group_machine::timer_table() {
  using machine = worker_group_machine;
  static constexpr machine_timer<machine> table[] = {
      // A program was short of something when it was started.
      {[](const machine& group) -> timer_moment { return group.queue_.retry_at; },
       &machine::try_again},
      // Somebody else holds the pipes of a worker that has ended.
      {[](const machine& group) -> timer_moment { return group.first_drain_until(); },
       &machine::on_drain_limits},
      // Something of the workers may still run; one question at a time.
      {[](const machine& group) -> timer_moment {
         const bool waits = group.looks_.asked == looks::question::none;
         return waits ? timer_moment(group.looks_.next) : std::nullopt;
       },
       &machine::look},
  };
  return table;
}

// ---- start -----------------------------------------------------------------------------------

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
  if (!queue_.searching || what.worker != queue_.next) return;  // forgotten
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
  if (was_sought && (!queue_.searching || what.worker != queue_.next)) return;  // forgotten
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

// Workers that wait for their turn are not started any more.
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

// ---- stop ------------------------------------------------------------------------------------

void worker_group_machine::handle(const stop_asked& what) {
  if (over_) return;
  tell_stopped();
  stopping_ = true;
  if (what.signal == SIGKILL) killing_ = true;
  for (place worker = 0; worker < lives_.size(); ++worker) {
    const worker_life& one = lives_[worker];
    if (!one.may_be_signalled()) continue;
    // One that hangs in exec might run its program long after everybody has gone.
    const bool is_starting = one.phase() == worker_phase::starting;
    emit(signal_group{worker, is_starting ? SIGKILL : what.signal});
    if (one.phase() != worker_phase::draining) continue;
    emit(hurry_pipes{worker});
    if (one.is_drained()) end_group(worker);
  }
  close_queue();
  if (killing_) look_anew();
}

// ---- what always holds -----------------------------------------------------------------------

void worker_group_machine::check() const {
  // One worker after the other, and none that could be left between two stools.
  DDPRUN_ASSERT(lives_.count(worker_phase::starting) <= 1);
  DDPRUN_ASSERT(last_word_.has_value() == (lives_.are_done() && !over_));
  DDPRUN_ASSERT(!stopping_ || queue_.closed);
  DDPRUN_ASSERT(!queue_.closed || (!queue_.searching && !queue_.retry_at));
  const auto next = next_deadline();
  DDPRUN_ASSERT(!next || *next > now_);
  // Somebody will say something more, or a deadline comes.
  const bool is_waited_for = next || queue_.searching || looks_.asked != looks::question::none ||
                             lives_.count(worker_phase::starting, worker_phase::draining) > 0;
  DDPRUN_ASSERT(over_ || is_waited_for);
}

}  // namespace ddprun::launcher::workers
