// How this node's workers are stopped, and how the node itself shuts down.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::core {

class daemon_link;
class local_round;

// The workers of one round at this node: which live, and how they are ended.
//
//   order        follows
//   none         start
//   asked        ask: a grace, then the agent orders their kill
//   killed       kill: at any time, once
//   given up     kill_wait after it, some still live: they are unkillable
//
// Always: deadlines exist only while a worker lives; unkillable workers count as living, and were
// killed.

class local_workers {
 public:
  using moment = std::optional<machine_time>;

  void start(std::uint32_t count);
  // One ended. False: there is no such worker, or it had ended before.
  bool end(std::uint32_t local_rank);

  // True: ask them now. If they were asked before, the earlier end of the grace counts.
  bool ask(const machine_clock& clock, duration grace);
  // They are busy: after an `ask` they are not killed for `for_now`, but at most until `most` after
  // it, if the order allows that.
  void may_be_spared(bool allowed) { may_be_spared_ = allowed; }
  void spare(const machine_clock& clock, duration for_now, duration most);
  // True: kill them now.
  bool kill(const machine_clock& clock, duration kill_wait);
  // The guardian has killed them already.
  void take_as_struck() { are_struck_ = true; }
  bool are_struck() const { return are_struck_; }
  // None lives, so none has to be asked before the round ends.
  void take_as_asked(time_point now);
  // True: those that live now have outlived SIGKILL by `kill_wait`.
  bool give_up(machine_time now);

  std::uint32_t living() const { return living_; }  // those whose end has not been reported
  std::uint32_t unkillable() const { return unkillable_; }
  bool are_asked() const { return asked_at_.has_value(); }
  bool are_asked_by(time_point at) const { return asked_at_ && at >= *asked_at_; }
  bool are_killed() const { return are_killed_; }
  bool is_grace_over(machine_time now) const { return grace_until_ && now >= *grace_until_; }
  moment deadline() const;

 private:
  void check() const;

  std::vector<bool> ended_;
  std::uint32_t living_ = 0;
  std::uint32_t unkillable_ = 0;
  std::optional<time_point> asked_at_;  // when they were first asked to end, or killed
  bool are_killed_ = false;
  bool are_struck_ = false;
  moment grace_until_;
  bool may_be_spared_ = false;
  moment kill_until_;
};

// How this node shuts down: whether it was asked to leave, by which signal, and with which last
// effect; or whether it is fenced, and joins again.
//
// The first signal drains: the node stops its workers, says so, and leaves when the daemon tells it
// to, or by itself if there is no daemon. A second signal kills the workers, and the node leaves at
// once.
//
// Always: `drained_at_` is set only while draining.

class shutdown_state {
 public:
  using moment = std::optional<time_point>;

  // The workers are killed, and the node joins again.
  void fence() { is_fenced_ = true; }
  // The workers are gone. True: the node was fenced.
  bool end_fence();

  // The last effect, once no worker lives; a later one replaces it.
  void leave_with(leave last) { leaving_ = std::move(last); }
  const std::optional<leave>& leaving() const { return leaving_; }

  // A user's signal. True: it is the first.
  bool take_signal(int signal);
  int signal() const { return signal_; }  // the newest; 0: none
  int exit_code() const { return exit_code_of_signal(signal_); }
  void drain() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }
  // No worker lives here, except those that no signal ends.
  void workers_are_down(machine_time now);
  // When a draining node leaves without a message from the daemon. `daemon_lease`: when the newest
  // status that the daemon acknowledged was sent; `limit`: how long that holds.
  moment deadline(const machine_clock& clock, const timers& timing, duration limit,
                  const moment& daemon_lease, bool is_connected) const;

 private:
  bool is_fenced_ = false;
  std::optional<leave> leaving_;
  bool is_draining_ = false;
  int signal_ = 0;
  unsigned signals_ = 0;
  std::optional<machine_time> drained_at_;
};

// Whether the node reports its stop only once the health check is over.
bool waits_for_check(const local_round& local, const shutdown_state& shutdown);
// When a node whose worker failed stops without an order.
std::optional<time_point> own_stop_deadline(const local_round& local, const daemon_link& daemon,
                                            const timers& timing, const machine_clock& clock);
// When a node that was asked to leave does so without an order.
std::optional<time_point> drain_deadline(const shutdown_state& shutdown, const daemon_link& daemon,
                                         const timers& timing, const machine_clock& clock);

}  // namespace ddprun::core
