// A player runs one schedule: it builds the world, lets the faults happen, heals everything, and
// waits for what must follow. player.cpp has the beginning and the end, player_faults.cpp the
// faults.
//
// Ownership: keeps a reference to the schedule.
#pragma once

#include "tests/simulation/schedule.hpp"

namespace ddprun::simulation {

class player {
 public:
  explicit player(const schedule& plan) : plan_(plan), world_(plan.options) {}

  outcome run();

 private:
  std::string run_id_of(std::size_t index) const {
    return index % plan_.run_ids == 0 ? "train" : "train-" + std::to_string(index % plan_.run_ids);
  }
  bool runs_again() const;
  host& host_at(std::uint32_t number) {
    return world_.host_at(number % static_cast<std::uint32_t>(world_.hosts()));
  }
  // The newest live agent of a host; null if there is none.
  agent* agent_on(std::uint32_t number);
  worker_group* group_on(std::uint32_t number);
  void begin();
  void count_messages(const connection& over);
  void apply(const fault& each);
  void cut(const fault& each);
  void end_processes(const fault& each);
  void end_together(const fault& each);
  void stand_still(const fault& each);
  void bring_agent(const fault& each);
  void ill_workers(const fault& each);
  void break_connections(const fault& each);
  void move_daemon(const fault& each);
  void start_again(host& on, duration after);
  void start_daemon_again(duration after);
  void bring_daemon();
  void keep_a_daemon();
  void heal();
  void check_recovery(outcome& result);
  void check_end();

  const schedule& plan_;
  world world_;
  host* daemon_host_ = nullptr;
  std::uint64_t daemon_messages_ = 0;
};

}  // namespace ddprun::simulation
