// The checkers of rendezvous/DESIGN.md. They are told what really happens on the simulated hosts.
//
//   ranks        in one round the ranks are exactly 0..world-1, each once, and so are those within
//                each role; all members agree
//   overlap      live workers of two rounds of a run never overlap, nor those of two instances
//   rounds       round numbers grow, restarts_used never falls, one charge for one round
//   budget       no more than --max-restarts restarts are charged after a round that ran for
//                --restart-window before any member was told to stop it
//   closed       a closed instance never opens again; all agents present at the close leave with
//                one code; no agent waits for ever
//   queue        at most one state waits for each peer
//   success      no round follows one whose members all said that they succeeded, and they leave
//                with 0
//   jobs         all workers of an instance belong to one job
//   progress     workers are taken down only when something has gone wrong lately
//   journal      if it is intact: no number is given to two rounds, restarts never fall, and no
//                worker starts in an instance that an agent was told had succeeded, whichever
//                processes died
//
// Some overlaps are no violation, but are counted. Workers that no signal ends (D state) are
// excused, and so are those of an agent or host that stands still, until it has been running again
// for two heartbeats, or for an isolation limit if its clock stood still, too
// (rendezvous/DESIGN.md). Counted separately are: workers of an instance that the newer instance's
// daemon had never heard of when that instance started, also if one of them has succeeded and its
// agent comes to that daemon to learn the end; workers of a host whose clock stood still, too, as
// long as a daemon that has not been told of a newer round sends it acks; and, with a journal,
// workers of a round of which no member can reach the next daemon, if as many other nodes come, or
// if the journal is an old copy.
//
// The first violation is kept, and the world stops at it.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_machine.hpp"
#include "tests/simulation/truth.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::simulation {

class world;
class daemon;

// What the checkers insist on; `promised` is what holds in all families.
struct strictness {
  // Workers of two instances of one run id do not overlap either.
  bool across_instances = false;
  // No worker runs on without a daemon for longer than the orphan limit.
  bool orphans_end = false;
  // A round of which every member was heard to have succeeded is the last one.
  bool success_ends = false;
  // A daemon knows which numbers and charges earlier ones have given out, which takes a journal.
  bool journal = false;
};
extern const strictness promised;

// The ranks that were given out in a round, or in one of its roles.
struct ranks_given {
  std::map<std::uint32_t, std::uint32_t> blocks;  // first to count

  // False if one of them was given out before.
  bool add(std::uint32_t first, std::uint32_t count);
  std::uint32_t total() const;
};

class checkers {
 public:
  explicit checkers(world& in) : world_(in) {}

  void group_started(const std::shared_ptr<worker_group>& group);
  void start_failed(instance_id instance, round_number round);  // said so, e.g. too slow
  void worker_failed(const worker_group& group);  // by itself: its agent had not stopped it
  void agent_left(const agent& who);
  void order_sent(const daemon& by, const desired& order);
  void round_stopped(instance_id instance, round_number round, std::uint64_t by);  // which daemon
  void success_heard(session_id who, const status& news, std::uint64_t by);
  void went_on(const process& which);                  // after standing still
  void acked(const agent& whom, const daemon& by);     // which renews its lease
  void workers_taken_down(const worker_group& group);  // its agent asks or kills them
  void run_closed(const daemon& by, const core::run_view& view);
  void queue_grew(const connection& over, int end);

  // All members of the round have started workers that are alive right now.
  bool full(instance_id instance, round_number round) const;
  bool any_full(std::uint32_t nodes_min, const std::string& run_id = "train") const;
  const std::vector<std::shared_ptr<worker_group>>& live() const { return live_; }
  void forget_dead();
  std::uint64_t overlaps_excused() const { return overlaps_excused_; }
  std::uint64_t overlaps_unknown() const { return overlaps_unknown_; }
  std::uint64_t rounds_started() const { return rounds_started_; }
  bool ended(instance_id instance) const;

 private:
  struct round_record {
    assignment common;
    std::uint32_t restarts_used = 0;
    std::uint64_t started_by = 0;   // which daemon
    moment began{};                 // its first workers
    std::optional<moment> stopped;  // the last order to stop it
    ranks_given ranks;
    std::map<std::string, std::pair<ranks_given, std::uint32_t>> in_roles;  // and the role's world
    std::set<std::uint32_t> group_ranks;
    std::set<session_id> sessions;
    bool may_be_charged = false;  // a worker failed
    bool was_full = false;
    // Rounds of which no member had come to the daemon of this one, whose journal had been tampered
    // with: what it read may have told it that they were over.
    std::set<round_number> taken_for_dead;
    std::set<std::uint64_t> stopped_by;  // daemons that have ordered a member to stop
    std::set<std::uint64_t> success_heard_by;
    std::set<session_id> succeeded;  // told a daemon so before any member was told to stop
    bool succeeded_all() const {
      return common.group_world_size != 0 && succeeded.size() == common.group_world_size;
    }
  };
  struct instance_record {
    std::map<round_number, round_record> rounds;
    // The sessions that had joined the daemon when it first ordered this round to run.
    std::map<std::pair<std::uint64_t, round_number>, std::set<session_id>> heard_at_order;
    std::uint32_t refilled_at = 0;        // restarts, in a round that ran for restart_window
    std::set<round_number> start_failed;  // said so, whether or not a worker was ever started
    std::optional<std::string> job;       // of its first worker
    std::uint64_t order = 0;        // of its first worker among the instances; 0: none started
    std::set<instance_id> unknown;  // older ones that its daemon had not heard of when it started
    std::uint64_t begun_by = 0;     // that daemon
    bool closed = false;
    std::uint64_t closed_by = 0;  // which daemon
    std::set<int> exit_codes;     // more than one where it is known later that all had succeeded
    std::uint64_t faults_at_close = 0;
    std::set<session_id> present;
    // What daemons that keep a journal have told any agent.
    std::map<round_number, assignment> rounds_given;
    std::uint32_t restarts_told = 0;
    bool told_success = false;
  };

  void check_ranks(const worker_group& group, round_record& round, bool first);
  void check_ranks_in_role(const worker_group& group, round_record& round);
  void check_rounds(const worker_group& group, instance_record& instance);
  void check_budget(const worker_group& group, instance_record& instance);
  bool is_known(const worker_group& group, const round_record& round,
                const std::function<std::set<session_id>()>& who_is_heard,
                const std::function<bool(const agent&)>& was_told) const;
  void forget_unknown_rounds(const worker_group& group, instance_record& instance);
  void check_success(const worker_group& group, const instance_record& instance);
  void check_overlap(const std::shared_ptr<worker_group>& group);
  bool excused(const worker_group& older, moment& until) const;
  void take_for_dead(const worker_group& group, instance_record& instance);
  bool is_unknown(const worker_group& older, const worker_group& newer) const;
  bool is_unknown_to(std::uint64_t daemon, instance_id older) const;
  std::optional<moment> unknowing_until(const worker_group& older) const;
  bool excludes(const worker_group& one, const worker_group& other) const;
  bool is_older(const worker_group& one, const worker_group& other) const;
  void violated(const worker_group& group, const std::string& text);

  world& world_;
  std::map<instance_id, instance_record> instances_;
  std::vector<std::shared_ptr<worker_group>> live_;
  std::size_t started_since_sweep_ = 0;
  std::uint64_t overlaps_excused_ = 0;
  std::uint64_t overlaps_unknown_ = 0;
  std::uint64_t instances_begun_ = 0;
  std::uint64_t rounds_started_ = 0;
};

}  // namespace ddprun::simulation
