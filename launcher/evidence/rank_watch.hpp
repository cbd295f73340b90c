// The rank_watch knows, while a round runs, which of this node's ranks stand still, gathers
// evidence on demand, and reports a hang.
//
// Ranks that are asked for their collectives take processor time to answer, which is no move.
//
// It looks at the ranks every two seconds, or ten times within --hang-timeout, on a thread of its
// own; a rank that moves costs the reading of two small files. Time in which it could not look (a
// suspended machine, a stopped agent) does not count as stillness.
//
// If NCCL counts collectives, a rank that only spins in a single call counts as still at first. It
// has moved after all if NCCL's counts have changed, or the call is not a wait (hang_rules.hpp).
// NCCL is asked only when all ranks of this node have been still for a quarter of the limit,
// because an answer costs all nodes of the job some work.
//
// Thread rule: the main thread; handlers are called from the loop, never from inside a call.
// Ownership: destroy it before its io_context.
#pragma once

#include "launcher/evidence/call_watch.hpp"
#include "launcher/evidence/evidence_gathering.hpp"
#include "launcher/evidence/hang_rules.hpp"
#include "launcher/evidence/movement.hpp"
#include "launcher/process/background_task.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct watch_options {
  std::chrono::milliseconds limit{2000};  // of one gathering; 0: nothing is gathered
  bool names_hangs = false;
  std::optional<duration> hang_limit;  // none: it is learnt
  environment_map environment;         // for what is run to find out more
  std::string server_folder{};         // see evidence_gathering.hpp
  // When something else ends the round, a rank that has not moved for this long counts as still.
  std::chrono::milliseconds still_after{4000};
  // How ranks are asked, on another thread; tests have their own.
  std::function<node_evidence(const std::shared_ptr<question>& asked)> ask = &evidence::gather;
};

struct watched_rank {
  rank_evidence known;           // its identity
  std::uint64_t said_bytes = 0;  // printed so far
};

class rank_watch {
 public:
  struct outside {
    std::function<std::vector<watched_rank>()> living;
    std::function<void(rank_evidence& known)> add_output;  // its last output
    std::function<std::vector<std::string>()> memory_files;
    // The rank hangs: no rank has moved for the limit, nor between and after two looks at their
    // stacks.
    std::function<void(const hang_verdict& verdict, duration still_for)> hangs;
    // The same, but this node cannot tell which rank it is. Each is reported once per stretch.
    std::function<void(const std::string& sentence, duration still_for)> stands;
    // After either of them, or instead of them: where each rank is. None: a rank has moved again.
    std::function<void(std::optional<stall> seen)> stalls;
  };

  rank_watch(boost::asio::any_io_executor executor, watch_options options, outside with);

  // All workers of a round run. `sees_all`: the round has no other node.
  void begin(bool sees_all);
  // The workers are being stopped, or have ended.
  void end();

  // A rank of this node has not moved for some seconds, so it may be the reason why the round ends.
  // A rank that spins in a call does not count. This and is_gathering() are false before `begin`
  // and after `end`.
  bool is_any_still() const;

  // Asks all ranks that live, once for all who want to know until it is done. They are told within
  // the limit; where the kernel holds it up for longer, nothing is known. Unheard in the next
  // round.
  void gather(std::function<void()> done);
  bool is_gathering() const { return is_on_ && gathering_.under_way(); }
  // When who waits for the last gathering is told at the latest.
  time_point gathers_until() const { return late_.expiry(); }
  // No rank has moved for the limit, and two looks found each in the same place.
  bool is_stalled() const { return is_on_ && is_told_; }
  // The newest evidence of this round; none: nothing was gathered yet.
  const std::optional<node_evidence>& gathered() const { return gathered_; }

 private:
  void look_later();
  void look();
  struct look_result {
    movement seen;
    call_watch::answer calls;  // of the ranks that spin
  };
  void take_look(const look_result& found);
  bool has_stepped(const watched_rank& one);
  void finish_gathering(std::optional<node_evidence> found);
  void ask_nccl();
  bool is_spinning_in_vain(const node_evidence& seen) const;
  void count_as_moved();
  void assume_moves();
  void consider_hang();
  void compare_stacks(const node_evidence& first);
  void judge(const node_evidence& first, duration still_for);
  std::vector<std::uint32_t> ranks() const;

  watch_options options_;
  outside outside_;
  bool is_on_ = false;
  bool sees_all_ = false;
  bool is_told_ = false;  // that all stand still was reported
  bool is_comparing_ = false;
  std::optional<node_evidence> stood_;  // the first of two equal looks at stacks
  stillness still_;
  std::chrono::milliseconds pause_;
  time_point looked_at_{};  // by the real clock
  time_point watched_{};    // the same clock without the time in which no look was possible
  movement last_;
  std::map<pid_t, std::uint64_t> said_;
  std::set<pid_t> answerers_;       // were ever asked for their collectives, in earlier rounds, too
  bool is_look_overtaken_ = false;  // the look under way does not know of all of these
  struct steps_said {
    std::uint64_t last = 0;
    bool is_rhythm = false;  // it has reported more than one step, so it reports each
  };
  std::map<pid_t, steps_said> steps_;  // of the ranks that report any
  ras_place nccl_;                     // NCCL's RAS server
  std::shared_ptr<call_watch> calls_;  // of this round
  std::set<pid_t> asked_;              // by calls_
  std::set<pid_t> spinning_;           // in one call since they last moved otherwise
  std::string counts_;                 // NCCL's, from when all stood still; empty: not known
  time_point nccl_again_{};            // do not ask NCCL earlier: it has not answered
  std::optional<node_evidence> gathered_;
  std::vector<std::function<void()>> waiting_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer again_;  // the pause between two looks at stacks
  boost::asio::steady_timer late_;   // ends a gathering that hangs
  background_task<look_result> looking_;
  background_task<std::string> asking_;
  background_task<node_evidence> gathering_;
};

}  // namespace ddprun::launcher::evidence
