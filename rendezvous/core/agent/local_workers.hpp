// The workers of one round at this node: who lives, and how they are made to end.
//
//   order        follows
//   none         start
//   asked        ask: a grace, then the agent orders their kill
//   killed       kill: at any time, once
//   given up     kill_wait after it, some still live: they are unkillable
//
// Always: limits run only while a worker lives; the unkillable are among the living, and were
// killed.
#pragma once

#include "rendezvous/base/machine_clock.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::core {

class local_workers {
 public:
  using moment = std::optional<machine_time>;

  void start(std::uint32_t count);
  // One ended. False: there is none such, or it had ended before.
  bool end(std::uint32_t local_rank);

  // True: they are to be asked now. Where they were asked before, the shorter grace holds.
  bool ask(const machine_clock& clock, duration grace);
  // They are at something: after an `ask` they are not killed for `for_now`, but for
  // `most` after that, where the order allows it.
  void may_be_spared(bool allowed) { may_be_spared_ = allowed; }
  void spare(const machine_clock& clock, duration for_now, duration most);
  // True: they are to be killed now.
  bool kill(const machine_clock& clock, duration kill_wait);
  // The guardian has killed them already.
  void take_as_struck() { are_struck_ = true; }
  bool are_struck() const { return are_struck_; }
  // None lives, and whoever waits for the end of the round need not be asked.
  void take_as_asked(time_point now);
  // True: those that live now have outlived SIGKILL by `kill_wait`.
  bool give_up(machine_time now);

  std::uint32_t living() const { return living_; }  // no end of them has been told
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
  std::optional<time_point> asked_at_;  // when they were asked, or killed, first
  bool are_killed_ = false;
  bool are_struck_ = false;
  moment grace_until_;
  bool may_be_spared_ = false;
  moment kill_until_;
};

}  // namespace ddprun::core
