// How workers are stopped: asked, killed, named if they cannot be killed; then whether the node
// stays, joins again, goes on, or leaves. And what a user's signals do.
#include "rendezvous/core/agent/agent_stop.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/agent/agent_state.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::core {

// Lets go of the tether, or of those held here: from now on no other node's lease depends on this
// node.
void agent::state::let_go() {
  local.isolation.freeze(lease_of_round(local, real_now));
  if (local.tether.is_wanted()) emit(drop_tether{});
  local.tether.let_go();
  if (local.held.let_go()) emit(drop_members{});
}

// None of this node's workers is wanted any more, and none is asked to end.
void agent::state::fence() {
  shutdown.fence();
  emit(end_survivors{});
  take_down(force::kill);
}

// `request` 0: the run goes on, and a worker that can leave this round may live on.
void agent::state::take_down(force how, duration grace, int request, bool is_ordinary) {
  if (local.is_on()) let_go();
  changed = true;
  const bool has_failed = local.phase() == member_phase::failed;
  if (how == force::kill) {
    take_as_failures();
    local.end_check();  // a kill does not wait for the health check
  }
  if (local.workers.living() == 0) return after_workers();
  const bool given_up = local.phase() == member_phase::stopped;  // unkillable workers only
  if (!given_up) local.stop();
  if (how == force::kill) {
    if (local.workers.kill(clock, timing.kill_wait)) emit(kill_workers{local.number()});
  } else if (!given_up && local.workers.ask(clock, grace)) {
    const bool goes_on = request == 0 && !shutdown.is_draining() && !shutdown.leaving();
    emit(stop_workers{local.number(), request == 0 ? SIGTERM : request, goes_on, grace,
                      is_ordinary && !has_failed});
  }
  if (given_up) round_is_down();
}

// After a failure elsewhere the grace is stop_grace, which busy workers may exceed. After a signal
// it is drain_grace, and nothing exceeds that.
void agent::state::ask_to_end(const desired& message) {
  const duration grace = message.grace > duration::zero() ? message.grace : timing.stop_grace;
  local.workers.may_be_spared(options.spares_busy_workers && grace == timing.stop_grace &&
                              !shutdown.is_draining());
  check_health();
  // No round follows, so the workers are asked to end, and not to leave the round.
  const bool ends_run = message.signal == 0 && message.exit_code != 0;
  const bool is_ordinary = message.phase == desired_phase::stop && message.is_ordinary;
  take_down(force::ask, grace, ends_run ? SIGTERM : message.signal, is_ordinary);
}

// The check runs while the workers end, so that an unhealthy node can step aside in time.
void agent::state::check_health() {
  if (!options.checks_node || shutdown.is_draining()) return;
  if (local.begin_check()) emit(check_node{local.number()});
}

void agent::state::handle(const node_checked& event) {
  if (std::exchange(unhealthy, event.unhealthy) != event.unhealthy) changed = true;
  if (event.round != local.number() || !local.end_check()) return;
  const bool was_waited_for =
      local.phase() == member_phase::stopping && local.workers.living() == 0;
  if (was_waited_for) after_workers();
}

// A node that leaves does not wait for the check.
bool waits_for_check(const local_round& local, const shutdown_state& shutdown) {
  return local.is_being_checked() && !shutdown.is_draining() && !shutdown.leaving();
}

void agent::state::handle(const workers_busy& event) {
  if (event.round != local.number() || !local.is_on()) return;
  local.workers.spare(clock, busy_word_counts, std::min(timing.drain_grace, busy_grace_max));
}

void agent::state::after_workers() {
  if (!local.unclear.empty() && local.is_on()) {
    // Wait until it is clear how they ended, because once this node has reported its end nothing is
    // added to the causes.
    local.stop();
    local.workers.take_as_asked(real_now);
    return;
  }
  round_is_down();
}

void agent::state::close_service_here() {
  if (local.close_service()) emit(close_service{local.number()});
}

// No worker lives here any more, except those that SIGKILL did not end.
void agent::state::round_is_down() {
  changed = true;
  close_service_here();
  if (local.is_on()) {
    if (waits_for_check(local, shutdown)) return local.stop();
    local.end();
    // Time without a daemon counts from when there was nothing left to do but wait for it.
    daemon.is_idle(now);
  }
  shutdown.workers_are_down(now);
  if (shutdown.leaving()) {
    return finish(*shutdown.leaving());
  }
  if (local.workers.living() > 0) return;
  if (shutdown.end_fence()) {
    replace_round(local_round());
    restarts_used = restarts_forgiven = 0;
  }
  obey_deferred();
  leave_if_drained();
}

void agent::state::on_unclear_over() {
  take_as_failures();
  if (local.workers.living() == 0 && local.workers.are_asked()) after_workers();
}

void agent::state::on_nobody_says_stop() {
  note(note_level::warning,
       "a worker failed and the rendezvous daemon cannot be reached: stopping this node's "
       "workers");
  take_down(force::ask, timing.stop_grace);
}

// The workers were asked to end, or killed, and have had their time.
void agent::state::on_workers_overdue() {
  if (local.workers.is_grace_over(now)) take_down(force::kill);
  if (!local.workers.give_up(now)) return;
  note(note_level::error, counted(local.workers.living(), "worker") + " of round " +
                              std::to_string(local.number()) + " outlived SIGKILL by " +
                              to_text(timing.kill_wait) +
                              ": stuck in the kernel; this node cannot take part until they end");
  round_is_down();
}

// A node whose worker failed stops by itself after a bounded time if no daemon orders it.
std::optional<time_point> own_stop_deadline(const local_round& local, const daemon_link& daemon,
                                            const timers& timing, const machine_clock& clock) {
  if (local.phase() != member_phase::failed) return std::nullopt;
  const time_point failed_at = clock.real(local.failed_at());
  return std::max(failed_at, daemon.leased_from().value_or(failed_at)) + lease_limit(timing);
}

void agent::state::handle(const signal_received& event) {
  const bool is_first = shutdown.take_signal(event.signal);
  changed = true;
  local.workers.may_be_spared(false);
  const std::string name = signal_name(event.signal);
  if (!is_first) {
    shutdown.leave_with({shutdown.exit_code(), name + " came twice: workers killed", std::nullopt,
                         leave_reason::drained});
    emit(end_survivors{});
    return take_down(force::kill);
  }
  if (shutdown.leaving()) return;
  shutdown.drain();
  take_as_drain();
  newest.drop_deferred();
  // It is in no round, so there is nothing to tell the daemon that its goodbye does not say.
  if (local.phase() == member_phase::joined && local.workers.living() == 0) {
    return finish(
        {shutdown.exit_code(),
         interrupted_text(daemon, wait, entered_round, endpoints_text, real_now, event.signal),
         std::nullopt, leave_reason::drained});
  }
  if (local.phase() == member_phase::succeeded || !local.is_on()) {
    note(note_level::info, name + ": leaving the run");
    shutdown.workers_are_down(now);
  } else {
    std::string text = name + ": leaving the run";
    if (local.workers.living() > 0) {
      text += "; workers that have not ended in " + to_text(timing.drain_grace) +
              " are killed (a second signal kills at once)";
    }
    note(note_level::info, text);
    take_down(force::ask, timing.drain_grace, event.signal, /*is_ordinary=*/true);
  }
  if (!left) leave_if_drained();
}

std::optional<time_point> drain_deadline(const shutdown_state& shutdown, const daemon_link& daemon,
                                         const timers& timing, const machine_clock& clock) {
  return shutdown.deadline(clock, timing, lease_limit(timing), daemon.leased_from(),
                           daemon.is_connected());
}

void agent::state::leave_if_drained() {
  if (left) return;
  const moment deadline = drain_deadline(shutdown, daemon, timing, clock);
  if (!deadline || real_now < *deadline) return;
  finish({shutdown.exit_code(),
          signal_name(shutdown.signal()) + ": left without an answer from the rendezvous daemon",
          std::nullopt, leave_reason::drained});
}

void local_workers::check() const {
  DDPRUN_ASSERT(unkillable_ <= living_);
  DDPRUN_ASSERT(unkillable_ == 0 || are_killed_);
  DDPRUN_ASSERT(!are_killed_ || asked_at_);
  DDPRUN_ASSERT(living_ > 0 || (!grace_until_ && !kill_until_));
  DDPRUN_ASSERT(!grace_until_ || !kill_until_);
}

void local_workers::start(std::uint32_t count) {
  DDPRUN_ASSERT(ended_.empty() && !asked_at_);
  ended_.assign(count, false);
  living_ = count;
}

bool local_workers::end(std::uint32_t local_rank) {
  if (local_rank >= ended_.size() || ended_[local_rank]) return false;
  ended_[local_rank] = true;
  --living_;
  unkillable_ = std::min(unkillable_, living_);
  if (living_ == 0) {
    grace_until_.reset();
    kill_until_.reset();
  }
  check();
  return true;
}

bool local_workers::ask(const machine_clock& clock, duration grace) {
  DDPRUN_ASSERT(living_ > 0);
  const bool is_first = !asked_at_;
  if (is_first) {
    asked_at_ = clock.real_now();
    grace_until_ = clock.now() + grace;
  } else if (grace_until_) {
    grace_until_ = std::min(*grace_until_, clock.now() + grace);
  }
  check();
  return is_first;
}

void local_workers::spare(const machine_clock& clock, duration for_now, duration most) {
  if (!grace_until_ || !may_be_spared_) return;
  const machine_time until = std::min(clock.now() + for_now, clock.own(*asked_at_ + most));
  grace_until_ = std::max(*grace_until_, until);
}

bool local_workers::kill(const machine_clock& clock, duration kill_wait) {
  DDPRUN_ASSERT(living_ > 0);
  if (are_killed_) return false;
  if (!asked_at_) asked_at_ = clock.real_now();
  are_killed_ = true;
  grace_until_.reset();
  kill_until_ = clock.now() + kill_wait;
  check();
  return true;
}

void local_workers::take_as_asked(time_point now) {
  DDPRUN_ASSERT(living_ == 0);
  if (!asked_at_) asked_at_ = now;
}

bool local_workers::give_up(machine_time now) {
  if (!kill_until_ || now < *kill_until_) return false;
  kill_until_.reset();
  unkillable_ = living_;
  check();
  return true;
}

local_workers::moment local_workers::deadline() const {
  return grace_until_ ? grace_until_ : kill_until_;
}

bool shutdown_state::end_fence() {
  return std::exchange(is_fenced_, false);
}

bool shutdown_state::take_signal(int signal) {
  signal_ = signal;
  return ++signals_ == 1;
}

void shutdown_state::workers_are_down(machine_time now) {
  if (is_draining_ && !drained_at_) drained_at_ = now;
}

// The node leaves when the daemon closes it. It leaves by itself if no daemon can be reached, or if
// none closes it for longer than the other nodes can take to stop.
shutdown_state::moment shutdown_state::deadline(const machine_clock& clock, const timers& timing,
                                                duration limit, const moment& daemon_lease,
                                                bool is_connected) const {
  if (!drained_at_ || leaving_) return std::nullopt;
  const time_point drained_at = clock.real(*drained_at_);
  const time_point patience = drained_at + timing.drain_grace + timing.kill_wait +
                              timing.node_timeout + 2 * timing.isolation_limit;
  if (daemon_lease) return std::min(patience, *daemon_lease + limit);
  return is_connected ? std::min(patience, drained_at + limit) : clock.real_now();
}

}  // namespace ddprun::core
