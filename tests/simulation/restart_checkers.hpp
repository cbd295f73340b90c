// The checkers of the rules on restarts (rendezvous/DESIGN.md, rules 12 to 14) and of refusals.
// They are told of the same events as those of checkers.hpp.
//
//   pause     from the second failure in a row on that certainly was a quick one, the next round
//             waits
//   given up  a run is given up only after --max-quick-failures rounds that may have failed alike
//   left out  a node is left out only if its workers failed in --max-node-failures rounds; one that
//             certainly failed first so often is left out; and it is not placed again if the others
//             are enough
//   health    a node whose check has found something is in no round that has enough others
//   refused   an agent that leaves with 78 was refused; as one too many only if the run is full
//
// A checker says only what is certain: of rounds whose instance had one daemon and, about nodes
// that are left out, as long as only workers have failed in the world.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_machine.hpp"
#include "tests/simulation/truth.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ddprun::simulation {

class world;
class agent;
class daemon;

class restart_checkers {
 public:
  explicit restart_checkers(world& in) : world_(in) {}

  void order_sent(const daemon& by, const desired& order);
  void group_started(const worker_group& group);
  // It ended by itself, neither asked nor killed. `made`: because of a fault, not of another
  // worker's end.
  void worker_failed(const worker_group& group, const cause& why);
  void failure_made() { ++failures_made_; }
  void start_failed(instance_id instance) { instances_[instance].has_slow_start = true; }
  void greeted(const agent& whom, const daemon& by);  // it said hello
  void refused(const agent& whom, const daemon& by, const std::string& text);
  void agent_left(const agent& who);
  void run_closed(const core::run_view& view);
  bool was_refused(const session_id& who) const { return refused_.contains(who); }

 private:
  struct round_seen {
    moment ordered{};
    std::optional<moment> stopped;  // the first order to stop it
    std::uint32_t restarts_used = 0;
    assignment common;
    std::map<session_id, host_id> members;
    std::uint32_t ill = 0;  // of those: for so long that the choice must have known it
    std::map<host_id, std::uint32_t> failed;  // workers
    std::set<std::string> failures;           // alike failures count as one
    bool has_effects = false;
  };
  struct instance_seen {
    std::map<round_number, round_seen> rounds;
    std::set<std::uint64_t> daemons;
    bool has_slow_start = false;  // somewhere: no worker has failed
    std::set<host_id> left_out;
    std::set<session_id> unwanted;  // of those: came while others were enough
  };

  bool only_workers_failed() const;
  bool is_quick(const round_seen& one) const;
  static bool is_charged(const std::map<round_number, round_seen>& rounds, round_number one);
  std::uint32_t surely_first(const instance_seen& instance, host_id host,
                             round_number before) const;
  void check_pause(const worker_group& group, const instance_seen& instance);
  void check_left_out(const worker_group& group, instance_seen& instance);
  void check_stays(const instance_seen& instance, round_number round);
  void check_health(const round_seen& round);
  void violated(const std::string& text);

  world& world_;
  std::map<instance_id, instance_seen> instances_;
  std::set<session_id> refused_;
  std::uint64_t failures_made_ = 0;
};

}  // namespace ddprun::simulation
