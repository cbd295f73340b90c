// The stop of a round, and the fencing of members that cannot be reached: when it was ordered, who
// let go of the others, and from when on the next round may start. Made anew for each stop; one
// that was never ordered holds nothing up.
//
// The next round may start only when no worker of the last one can live. A member that is reachable
// says so. One that is not runs on while its tether to the leader answers, or, if it is the leader,
// while it holds all tethers. So the moment that counts is when the chain breaks:
//
//   leader is reachable    its own acknowledgement: it has dropped every tether
//   leader is unreachable  any member's: the leader no longer holds all of them, and kills its
//                          workers one isolation limit later; members that cannot be reached
//                          either, and may still hang on it, follow another isolation limit later
//   a member has died      its tether went with it: the same as its acknowledgement
//   nobody spoke           the orphan limit, or an operator
//
// Whoever acknowledges says which of its tethers had been without an ack for long, and since when:
// over those no lease was given later. A host that lost its power is mostly past its limit then.
//
// Always: a leader's acknowledgement is one, and nothing is earlier than the last word of who
// cannot be reached.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::core {

struct current_instance;
class entered_phase;
class membership;
struct node;
class round_memberships;
class wait_message;

// A node's loop may be so late without noticing, and the kill itself takes a moment.
inline constexpr duration late_kill = std::chrono::milliseconds(250);

// Clocks run up to 1 % apart from the true rate, in both directions. Only the last kill of a chain
// can be late: what others are told before it is judged by the clock, not by a timer.
inline duration with_margin(duration limit) {
  return limit + limit / 50 + late_kill;
}

class round_stop {
 public:
  round_stop() = default;  // none was ordered
  // In this step of the run, as a message to all members, none of whom is waited for longer than
  // `patience`. `is_free`: nothing is charged, whatever the members report.
  round_stop(machine_time now, std::uint64_t step, duration patience, bool is_free,
             std::shared_ptr<const daemon_message> message);

  machine_time ordered_at() const { return ordered_at_; }
  // A node that has spoken in this step has outlived the order, and what the order was for.
  bool precedes(std::uint64_t step) const { return step > step_; }
  bool is_free() const { return is_free_; }
  const std::shared_ptr<const daemon_message>& message() const { return message_; }

  // Somebody was told only now.
  void tell_late(machine_time now) { told_at_ = now; }
  duration patience() const { return patience_; }
  machine_time overdue_at() const { return told_at_ + patience_; }

  // Only members that cannot be reached are left. Once: true.
  bool begins_to_wait() { return !std::exchange(waits_, true); }
  // A member has dropped its tethers, or died. `acks`: by its own word, sent at `now` or before.
  void acknowledge(machine_time now, bool is_leader, const std::vector<tether_age>& acks = {});
  // The last word of a member that cannot be reached: it was answered until then.
  void leased_until(machine_time last_word);
  bool has_let_go() const { return first_acknowledged_.has_value(); }  // some member
  // From then on none of these members, which cannot be reached, has a living worker.
  machine_time fenced_at(const timers& timing, const round_memberships& memberships) const;

 private:
  // By the leader's acks, once it has acknowledged.
  machine_time members_leased_until(const round_memberships& memberships) const;

  machine_time ordered_at_{};
  machine_time told_at_{};
  std::uint64_t step_ = 0;
  duration patience_{};
  bool is_free_ = false;
  bool waits_ = false;
  std::shared_ptr<const daemon_message> message_;
  std::optional<machine_time> first_acknowledged_;
  std::optional<machine_time> leader_acknowledged_;
  machine_time leader_leased_until_ = machine_time::max();  // by its tethers
  std::map<std::uint32_t, machine_time> leader_acks_;       // by group rank: its newest ack, if old
  machine_time leased_until_{};
};

// How long whoever was told to stop, with this grace, may take before it counts as broken.
inline duration stop_patience_of(const timers& timing, duration grace) {
  return std::max(grace, timing.drain_grace) + timing.kill_wait + timing.stop_grace +
         2 * timing.node_timeout;
}

// How a stop goes on, and until when the lost are fenced.

timer_moment stop_overdue_at(const entered_phase& phase, const round_memberships& memberships,
                             const round_stop& stop);
bool shows_stop(const current_instance& current, const node& member, const status& said);
void mark_reached(round_memberships& memberships, round_stop& stop, machine_time now,
                  membership& of);
void acknowledge(wait_message& notice, round_memberships& memberships, round_stop& stop,
                 machine_time now, membership& of, const std::vector<tether_age>& acks = {});
bool is_stop_over(const current_instance& current, const round_memberships& memberships,
                  const round_stop& stop, const timers& timing, machine_time now);
std::optional<machine_time> fence_until(const round_memberships& memberships,
                                        const round_stop& stop, const timers& timing);
void remember_departure(const entered_phase& phase, current_instance& current, wait_message& notice,
                        time_point real_now, const node& who, const cause& why);

}  // namespace ddprun::core
