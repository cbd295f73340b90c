// The checkers of design section 11, fed with what truly happens on the simulated hosts.
//
//   ranks        in one round the ranks are exactly 0..world-1, each once; all members agree
//   overlap      live workers of two rounds of a run never overlap, nor those of two instances
//   rounds       round numbers grow, restarts_used never falls, one charge for one round
//   closed       a closed instance never opens; present at close: one code; nobody waits for ever
//   queue        per peer at most one state waits
//
// Excused, and counted: workers that no signal ends (D state); those of an agent or host that
// stands still, until it has gone on for `isolation_limit` (design section 11, "unfenced"); and
// those of an agent that no daemon has heard for `orphan_limit`, after which a daemon stops waiting
// for a round of which it can reach nobody (design section 6).
//
// Thread rule: one thread. The first violation is kept; the world stops at it.
#pragma once

#include "rendezvous/core/run.hpp"
#include "tests/simulation/truth.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ddprun::simulation {

class world;
class daemon;

// What the checkers insist on beyond what the machines promised at first. A promise that is newly
// kept is switched on here, for all families.
struct strictness {
  // Workers of two instances of one run id do not overlap either.
  bool across_instances = true;
  // Nobody runs on without a daemon for longer than the orphan limit.
  bool orphans_end = true;
};

class checkers {
 public:
  explicit checkers(world& in) : world_(in) {}

  void group_started(const std::shared_ptr<worker_group>& group);
  void start_failed(instance_id instance, round_number round);  // said so, e.g. too slow
  void worker_failed(const worker_group& group);  // by itself: its agent had not stopped it
  void agent_left(const agent& who);
  void run_closed(const daemon& by, const core::run_view& view);
  void queue_grew(const connection& over, int end);

  // All members of the round have executed workers alive right now.
  bool full(instance_id instance, round_number round) const;
  bool any_full(std::uint32_t nodes_min) const;
  const std::vector<std::shared_ptr<worker_group>>& live() const { return live_; }
  void forget_dead();
  std::uint64_t overlaps_excused() const { return overlaps_excused_; }
  std::uint64_t rounds_started() const { return rounds_started_; }
  bool ended(instance_id instance) const;

 private:
  struct round_record {
    assignment common;
    std::uint32_t restarts_used = 0;
    std::uint64_t started_by = 0;                  // which daemon
    std::map<std::uint32_t, std::uint32_t> ranks;  // first to count
    std::set<std::uint32_t> slots;
    std::set<session_id> sessions;
    bool may_be_charged = false;  // a worker failed
    bool was_full = false;
  };
  struct instance_record {
    std::map<round_number, round_record> rounds;
    std::set<round_number> start_failed;  // said so, whether or not a worker was ever started
    std::uint64_t order = 0;  // of its first worker among the instances; 0: none started
    bool closed = false;
    std::uint64_t closed_by = 0;  // which daemon
    int exit_code = 0;
    std::uint64_t faults_at_close = 0;
    std::set<session_id> present;
  };

  void check_ranks(const worker_group& group, round_record& round, bool first);
  void check_rounds(const worker_group& group, instance_record& instance);
  bool is_known(const worker_group& group, const round_record& round,
                const std::function<bool(const agent&)>& was_told) const;
  void forget_unknown_round(const worker_group& group, instance_record& instance);
  void check_overlap(const std::shared_ptr<worker_group>& group);
  bool excused(const worker_group& older, moment& until) const;
  bool excludes(const worker_group& one, const worker_group& other) const;
  bool is_older(const worker_group& one, const worker_group& other) const;
  void violated(const worker_group& group, const std::string& text);

  world& world_;
  std::map<instance_id, instance_record> instances_;
  std::vector<std::shared_ptr<worker_group>> live_;
  std::size_t started_since_sweep_ = 0;
  std::uint64_t overlaps_excused_ = 0;
  std::uint64_t instances_begun_ = 0;
  std::uint64_t rounds_started_ = 0;
};

}  // namespace ddprun::simulation
