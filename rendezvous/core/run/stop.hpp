// The stop of a round, and the fencing of members that cannot be reached: when it was ordered,
// which members have let go of their tethers, and when the next round may start. Each stop is a new
// object; one that was never ordered holds nothing up.
//
// The next round may start only when no worker of the last one can live. A reachable member reports
// that. An unreachable member runs on while the leader acknowledges its tether; an unreachable
// leader runs on while it holds the tethers of all. So what counts is when this chain breaks:
//
//   leader is reachable    its own acknowledgement: it has dropped every tether
//   leader is unreachable  any member's: the leader no longer holds all of them, and kills its
//                          workers one isolation limit later; members that cannot be reached
//                          either, and may still depend on it, follow another limit later
//   a member has died      its tether went with it: the same as its acknowledgement
//   no member was heard    the orphan limit, or an operator
//
// A member that acknowledges also says which of its tethers have long been without an ack, and
// since when: no lease was renewed over those later. A host that has lost power is usually past its
// limit by then.
//
// Always: if the leader has acknowledged, so has a member; and the fence never ends before an
// unreachable member's last message plus its limit.
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
struct headcount;
class membership;
struct node;
class outbox;
class round_memberships;
class round_numbers;
class wait_message;

// How late a node may kill: its loop may be late without noticing, and the kill itself takes a
// moment.
inline constexpr duration late_kill = std::chrono::milliseconds(250);

// Clocks deviate from the true rate by up to 1 %, in both directions. Only the last kill of a chain
// can be late, because what others are told before it is judged by the clock, not by a timer.
inline duration with_margin(duration limit) {
  return limit + limit / 50 + late_kill;
}

class round_stop {
 public:
  round_stop() = default;  // none was ordered
  // Orders a stop in this step of the run, by `message` to all members, none of which is waited for
  // longer than `patience`. `is_free`: nothing is charged, whatever the members report.
  round_stop(machine_time now, std::uint64_t step, duration patience, bool is_free,
             std::shared_ptr<const daemon_message> message);

  machine_time ordered_at() const { return ordered_at_; }
  // A node that sent a message in `step` has outlived the order, and the reason for it.
  bool precedes(std::uint64_t step) const { return step > step_; }
  bool is_free() const { return is_free_; }
  const std::shared_ptr<const daemon_message>& message() const { return message_; }

  // A member was told only now, so the patience begins again.
  void tell_late(machine_time now) { told_at_ = now; }
  duration patience() const { return patience_; }
  machine_time overdue_at() const { return told_at_ + patience_; }

  // Only unreachable members are left. True the first time.
  bool begins_to_wait() { return !std::exchange(waits_, true); }
  // A member has dropped its tethers, or died. `acks`: the ages that it reported, as of `now`.
  void acknowledge(machine_time now, bool is_leader, const std::vector<tether_age>& acks = {});
  // An unreachable member's last message: it was acknowledged, so its lease counts from there.
  void leased_until(machine_time last_word);
  bool has_let_go() const { return first_acknowledged_.has_value(); }  // any member
  // When no unreachable member can have a living worker any more.
  machine_time fenced_at(const timers& timing, const round_memberships& memberships) const;

 private:
  // According to the acks that the leader reported; it must have acknowledged the stop.
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
  machine_time leader_leased_until_ = machine_time::max();  // according to the members' tethers
  std::map<std::uint32_t, machine_time>
      leader_acks_;  // by group rank: when it last acked a member, if that is long ago
  machine_time leased_until_{};
};

// How long a node that was told to stop, with this grace, may take before it counts as broken.
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
void acknowledge(wait_message& waiting, round_memberships& memberships, round_stop& stop,
                 machine_time now, membership& of, const std::vector<tether_age>& acks = {});
bool is_stop_over(const current_instance& current, const round_memberships& memberships,
                  const round_stop& stop, const timers& timing, machine_time now);
std::optional<machine_time> fence_until(const round_memberships& memberships,
                                        const round_stop& stop, const timers& timing);
void remember_departure(const entered_phase& phase, current_instance& current,
                        wait_message& waiting, time_point real_now, const node& who,
                        const cause& why);
void fence(const headcount& counts, const current_instance& current, round_numbers& rounds,
           outbox& out, node& who);

}  // namespace ddprun::core
