// Decides whether the ranks of this node hang, and which rank the others wait for.
//
// Two independent checks must agree. The first is what the ranks have done, seen from outside: a
// rank has moved if it used the processor, read, wrote, printed, or began to wait for a disk since
// the last look. So a first step that compiles, a checkpoint and an evaluation are moves.
// Only when none of this node's ranks has moved for the whole limit, the second is asked: their
// stacks, twice, which must be the same both times, and none of a rank that is traced (a debugger).
// Then the rules of rendezvous/core/messages/stall.hpp say which rank it is.
//
// A node whose ranks all wait cannot see what other nodes' ranks do: it names no rank, and reports
// to the daemon where its ranks are. If the limit is learnt, the named rank is not killed, because
// a script may be idle for a good reason (a download).
#pragma once

#include "launcher/evidence/rank_evidence.hpp"
#include "rendezvous/core/messages/stall.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

// The learnt limit is five times the longest pause between two moves of any rank, and at least
// this.
inline constexpr std::chrono::seconds learnt_limit_min{20};

// Records how long each rank has not moved.
class stillness {
 public:
  // A round begins, and no rank has stood still yet.
  void begin() { moved_.clear(); }
  // Records a look at a rank. A new rank counts as moved.
  void see(std::uint32_t rank, bool has_moved, time_point now);
  // Restarts the rank's time without having seen a move: the pause before is not learnt.
  void assume_moved(std::uint32_t rank, time_point now) { moved_[rank] = now; }
  void forget(std::uint32_t rank) { moved_.erase(rank); }

  duration still_for(std::uint32_t rank, time_point now) const;
  // The shortest stillness of these ranks; zero if there are none.
  duration all_still_for(const std::vector<std::uint32_t>& ranks, time_point now) const;
  // `set` is the user's limit; none: the learnt one.
  duration limit(const std::optional<duration>& set) const;

 private:
  std::map<std::uint32_t, time_point> moved_;
  duration longest_pause_{};
};

struct hang_verdict {
  std::uint32_t rank = 0;  // the rank to name
  std::string words;       // "stood in forward (train.py:88) while ..."
};

// Whether two looks have found the same ranks at the same places, none of them traced or at its
// end. One in state D is at the same place if it is in the same wait.
bool have_stood(const node_evidence& first, const node_evidence& second);

// Tells whether the processor time of the `spinning` ranks (by process) counts for nothing, though
// each has spun in one call for the whole time: NCCL reports the same `counts` of launched
// collectives for all ranks of the job, and the call of each is a wait. A rank that computes in any
// other call has moved, however long it takes.
bool do_spin_in_vain(const std::set<pid_t>& spinning, const std::string& counts,
                     const node_evidence& now);

// None: they have moved, or this node cannot tell which rank it is.
std::optional<hang_verdict> judge_hang(const node_evidence& first, const node_evidence& second,
                                       const stall_scope& scope);

}  // namespace ddprun::launcher::evidence
