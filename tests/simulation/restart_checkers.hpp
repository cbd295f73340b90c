// The checkers of the rules on restarts (rendezvous/DESIGN.md, rules 12 to 14), fed as
// checkers.hpp is, and those of refusals.
//
//   pause     from the second failure in a row on that surely was a quick one, the next round waits
//   given up  only after --max-quick-failures rounds that may have failed alike
//   left out  by --max-node-failures is only who had as many rounds in which its workers failed;
//             who surely failed first so often is; and it is not placed again where others are
//             enough
//   health    a node whose check has found something is in no round that has enough others
//   refused   who leaves with 78 was refused; as one too many only where the run is full
//
// What is sure is little: rounds of an instance that knew one daemon; and, of whom is left out, a
// world in which nothing but workers has failed so far.
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
  // By itself: neither asked nor killed. `made`: by a fault, and not by another worker's end.
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
    std::uint32_t ill = 0;  // of those: for longer than a choice can have been unaware of
    std::map<host_id, std::uint32_t> failed;  // workers
    std::set<std::string> failures;           // what is alike is one
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
