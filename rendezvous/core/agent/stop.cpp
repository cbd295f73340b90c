// The way down: ask, kill, name what cannot be killed; then stay, join anew, go on, or leave. And
// what a person's signals do.
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/core/agent/state.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::core {

// Lets go of the tether, or of those held here: from now on nobody runs on because of this node.
void agent::state::let_go() {
  if (!frozen_vouch) frozen_vouch = round_vouch();
  if (tether.wanted) emit(drop_tether{});
  if (!held.by_tether.empty()) emit(drop_members{});
  tether.wanted = false;
  held.by_tether.clear();
}

void agent::state::take_down(force how, duration grace, int request) {
  if (in_round()) let_go();
  changed = true;
  if (how == force::kill) take_as_failures();
  if (living == 0) return after_workers();
  const bool given_up = phase == member_phase::stopped;  // unkillable workers only
  if (!given_up) phase = member_phase::stopping;
  if (!asked_to_stop) asked_at = now;
  if (how == force::kill) {
    asked_to_stop = true;
    grace_until.reset();
    if (!killed) {
      killed = true;
      kill_until = now + timing.kill_wait;
      emit(kill_workers{round});
    }
    return given_up ? settle_down() : void();
  }
  if (given_up) return settle_down();
  if (!asked_to_stop) {
    asked_to_stop = true;
    grace_until = now + grace;
    emit(stop_workers{round, request});
  } else if (grace_until) {
    grace_until = std::min(*grace_until, now + grace);
  }
}

void agent::state::after_workers() {
  grace_until.reset();
  kill_until.reset();
  if (asked_until && in_round()) {
    // Once this node has said that it is down, the cause of the round's end is settled.
    phase = member_phase::stopping;
    asked_to_stop = true;
    return;
  }
  settle_down();
}

// No worker lives here any more, but those that SIGKILL did not end.
void agent::state::settle_down() {
  changed = true;
  if (service_wanted) {
    emit(close_service{round});
    service_wanted = false;
    service_port = 0;
    master_port = 0;
    nccl_ids.clear();
  }
  if (in_round()) {
    phase = member_phase::stopped;
    // Time without a daemon counts from when there was nothing left to do but to wait for it.
    daemon.is_idle(now);
  }
  out.workers_are_down(now);
  if (out.leaving()) {
    const leave last = *out.leaving();
    return finish(last.exit_code, last.text, last.first_cause);
  }
  if (living > 0) return;
  if (out.end_fence()) {
    forget_round();
    instance = 0;
    round = 0;
    restarts_used = 0;
  }
  obey_deferred();
  leave_if_drained();
}

void agent::state::check_stop_deadlines() {
  if (asked_until && now >= *asked_until) {
    take_as_failures();
    if (living == 0 && asked_to_stop) after_workers();
    if (left) return;
  }
  if (const moment own = own_stop_deadline(); own && now >= *own) {
    note(note_level::warning,
         "a worker failed and the rendezvous daemon cannot be reached: stopping this node's "
         "workers");
    take_down(force::ask, timing.stop_grace);
  }
  if (grace_until && now >= *grace_until) take_down(force::kill);
  if (kill_until && now >= *kill_until) {
    kill_until.reset();
    unkillable = living;
    note(note_level::error, std::to_string(living) + " worker(s) of round " +
                                std::to_string(round) + " outlived SIGKILL by " +
                                to_text(timing.kill_wait) +
                                ": stuck in the kernel; this node takes no part until they end");
    settle_down();
  }
  if (!left) leave_if_drained();
}

// With no daemon to say stop, a node whose worker failed stops by itself after a bounded time.
agent::state::moment agent::state::own_stop_deadline() const {
  if (phase != member_phase::failed) return std::nullopt;
  return std::max(failed_at, daemon.vouched().value_or(failed_at)) + limit();
}

void agent::state::handle(const signal_received& event) {
  const bool is_first = out.take_signal(event.signal);
  changed = true;
  const std::string name = signal_name(event.signal);
  if (!is_first) {
    out.leave_with({out.exit_code(), name + " came twice: workers killed", std::nullopt});
    return take_down(force::kill);
  }
  if (out.leaving()) return;
  out.drain();
  take_as_drain();
  word.drop_deferred();
  if (phase == member_phase::joined && living == 0) {
    return finish(out.exit_code(), name + ": left before a round began here", std::nullopt);
  }
  if (phase == member_phase::succeeded || !in_round()) {
    note(note_level::info, name + ": leaving the run");
    out.workers_are_down(now);
  } else {
    std::string text = name + ": leaving the run";
    if (living > 0) {
      text += "; workers that have not ended in " + to_text(timing.drain_grace) +
              " are killed (a second signal kills at once)";
    }
    note(note_level::info, text);
    take_down(force::ask, timing.drain_grace, event.signal);
  }
  if (!left) leave_if_drained();
}

agent::state::moment agent::state::drain_deadline() const {
  return out.deadline(now, timing, limit(), daemon.vouched(), daemon.is_connected());
}

void agent::state::leave_if_drained() {
  if (left) return;
  const moment deadline = drain_deadline();
  if (!deadline || now < *deadline) return;
  finish(out.exit_code(),
         signal_name(out.signal()) + ": left without a word of the rendezvous daemon",
         std::nullopt);
}

}  // namespace ddprun::core
