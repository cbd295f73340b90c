// A round at one node: its phase, assignment and service, how its workers ended, and since when its
// ranks stand still.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/agent/agent_stop.hpp"
#include "rendezvous/core/agent/leases.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/rank_ends.hpp"
#include "rendezvous/core/messages/stall.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

// How this node's workers ended, as it reports it to the daemon: the causes of a round's end, and
// ends of which it is not clear yet whether they are failures.

// A signal to the whole process group reaches this agent and its workers in any order. For this
// long after a signal has ended a worker it is unclear whether the signal was to the node.
inline constexpr duration own_signal_wait = std::chrono::milliseconds(100);

struct seen_cause {
  ddprun::cause cause;
  time_point at;
};

// Always: at most causes_max, the likeliest root cause first, and only that one with a tail. A tail
// is up to 4 KiB long and a status is sent every second, so on each connection it is sent only
// until a status with it has been acknowledged.
class local_causes {
 public:
  // False: there are so many likelier causes that this one is dropped.
  bool add(cause why, time_point at);
  bool empty() const { return seen_.empty(); }

  // A connection has begun: its daemon has not read the tail.
  void connected();
  // The causes as status `seq` reports them.
  std::vector<cause> tell(std::uint64_t seq, time_point now);
  void acked(std::uint64_t seq);

 private:
  void check() const;

  std::vector<seen_cause> seen_;
  std::uint64_t tail_seq_ = 0;  // of the first status on this connection that told the tail
  bool is_tail_told_ = false;   // and the daemon has answered it, or one after it
};

// Workers that were ended by a signal which this agent may have been sent, too. Always: there is a
// deadline if there are any.
class unclear_ends {
 public:
  void add(cause why, const machine_clock& clock);
  bool empty() const { return !until_; }
  // With their ages as of now.
  std::vector<cause> take(time_point now);
  // From this moment on they count as failures.
  const std::optional<machine_time>& deadline() const { return until_; }

 private:
  std::vector<seen_cause> seen_;
  std::optional<machine_time> until_;
};

// How each worker of a round has ended at this node. It is reported once all have.

class local_ends {
 public:
  // The workers are started now.
  void begin(machine_time now) { began_ = now; }
  // How long ago they were started; zero: they were not.
  duration ran(machine_time now) const { return began_ ? now - *began_ : duration::zero(); }
  void set_well(std::uint32_t local_rank, ending how, machine_time now) {
    add(local_rank, how, now);
  }
  // The end of the worker that this cause describes.
  void set(const cause& why, ending how, machine_time now) {
    add(*why.local_rank, how, now - std::max(why.age, duration::zero()));
    const bool is_known = how == ending::failed || how == ending::secondary;
    if (is_known && why.kind == cause_class::exit) ends_.back().code = why.code;
    if (is_known && why.kind == cause_class::signal) ends_.back().code = -why.code;
    if (std::abs(ends_.back().code) > end_code_max) ends_.back().code = 0;
  }
  std::vector<ended_ranks> tell(std::uint32_t rank_first) const {
    std::vector<ended_ranks> told = ends_;
    for (ended_ranks& one : told) {
      one.first += rank_first;
      one.last += rank_first;
    }
    return merged(std::move(told));
  }

 private:
  void add(std::uint32_t local_rank, ending how, machine_time at) {
    using std::chrono::milliseconds;
    const auto after = std::chrono::duration_cast<milliseconds>(at - began_.value_or(at));
    const milliseconds shown = std::max(after, milliseconds::zero());
    ends_.push_back({how, local_rank, local_rank, end_times{shown, shown}});
  }

  std::optional<machine_time> began_;
  std::vector<ended_ranks> ends_;
};

// Since when no rank of this node has moved, and where each stands.

class local_stall {
 public:
  // True: it was not so before.
  bool set(std::optional<stall> seen, time_point now) {
    if (!seen && !seen_) return false;
    since_ = now - (seen ? seen->age : duration::zero());
    seen_ = std::move(seen);
    return true;
  }

  std::optional<stall> tell(time_point now) const {
    std::optional<stall> told = seen_;
    if (told) told->age = now - since_;
    return told;
  }

 private:
  std::optional<stall> seen_;
  time_point since_{};
};

// The round at this node: its number, its phase here, the assignment, the leader's service, and
// everything else that lives as long as the round. A new round is a new object, so nothing of the
// last one is left.
//
//   phase                 becomes     by
//   joined                preparing   prepare (the leader)
//   joined, preparing     assigned    take_assignment
//   assigned              starting    start
//   starting              running     run
//   starting, running     succeeded   succeed
//   any that is on        failed      fail
//   any that is on        stopping    stop
//   any that is on        stopped     end
//   joined, stopped       stopped     stay_out
//
// "On" is every phase but joined and stopped. Always: there is a service only while the round is
// on; an assignment from phase assigned on, unless it made no sense; and no worker after the end
// but unkillable ones.
class local_round {
 public:
  // In no instance.
  local_round() = default;
  // Between rounds: `number` was the newest round of the instance here.
  local_round(instance_id instance, round_number number) : instance_(instance), number_(number) {}
  // The round begins.
  local_round(instance_id instance, round_number number, machine_time now)
      : instance_(instance), number_(number), began_(now) {}

  void prepare(std::uint32_t group_world_size);
  void open_service(std::uint16_t service_port, std::uint16_t master_port,
                    ddprun::leader_data data);
  // The service failed by itself.
  void lose_service();
  // True: there was one, and it has to be closed.
  bool close_service();
  // The round's time counts from here.
  void take_assignment(const ddprun::assignment& value, machine_time now);
  void drop_assignment() { assignment_.reset(); }
  void start(std::uint32_t worker_count, machine_time now);
  void restore(std::uint64_t bytes) { restored_ = std::min(bytes, count_max); }
  void run();
  void succeed();
  void fail(machine_time now);
  void stop();
  void end();
  // The round will not be entered here, or never was.
  void stay_out();

  instance_id instance() const { return instance_; }
  round_number number() const { return number_; }
  member_phase phase() const { return phase_; }
  bool is_on() const { return phase_ != member_phase::joined && phase_ != member_phase::stopped; }
  bool is_leader() const;
  bool is_alone() const { return is_leader() && group_world_size_ <= 1; }
  bool has_service() const { return has_service_; }
  std::uint16_t service_port() const { return service_port_; }
  const std::optional<ddprun::assignment>& assignment() const { return assignment_; }
  std::uint32_t group_world_size() const { return group_world_size_; }
  machine_time began() const { return began_; }
  machine_time failed_at() const { return failed_at_; }  // in phase failed
  bool has_nothing_on() const { return !is_on() && workers.living() == 0; }

  // The node's health check, which runs once in a round. True: it begins now.
  bool begin_check();
  // The check has ended. True: it was running.
  bool end_check();
  bool is_being_checked() const { return check_ == node_check::under_way; }

  // Fills in what the status says of the round.
  void tell(status& value) const;

  local_workers workers;
  unclear_ends unclear;
  local_causes causes;
  local_ends ends;
  tether_link tether;  // a member's
  held_tethers held;   // a leader's
  isolation_state isolation;
  local_stall stall;

 private:
  enum class node_check { none, under_way, over };

  instance_id instance_ = 0;
  round_number number_ = 0;
  member_phase phase_ = member_phase::joined;
  machine_time began_;
  std::optional<ddprun::assignment> assignment_;
  std::uint32_t group_world_size_ = 0;
  bool has_service_ = false;  // wanted, or open
  std::uint16_t service_port_ = 0;
  std::uint16_t master_port_ = 0;
  ddprun::leader_data leader_data_;
  std::uint64_t restored_ = 0;
  bool has_succeeded_ = false;
  machine_time failed_at_;
  node_check check_ = node_check::none;
};

}  // namespace ddprun::core
