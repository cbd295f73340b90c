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
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/agent/held_tethers.hpp"
#include "rendezvous/core/agent/isolation.hpp"
#include "rendezvous/core/agent/local_causes.hpp"
#include "rendezvous/core/agent/local_ends.hpp"
#include "rendezvous/core/agent/local_stall.hpp"
#include "rendezvous/core/agent/local_workers.hpp"
#include "rendezvous/core/agent/tether_link.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

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
