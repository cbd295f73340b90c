// The rank_watch knows, while a round runs, which of this node's ranks stand still, gathers the
// evidence when that is asked for, and says when they hang.
//
// It looks at them every two seconds, or ten times within --hang-timeout, on a thread of its own: a
// rank that moves costs the reading of two small files. Time in which it could not look (a machine
// that was suspended, an agent that was stopped) counts for nobody's stillness.
//
// Where NCCL counts collectives, a rank that only spins, in a single call, is still for now. It has
// moved after all if NCCL's counts, or the place of the call, do not say that it waits in vain
// (hang_rules.hpp). NCCL is asked only when all ranks of this node have been still for a quarter of
// the limit, as an answer costs all nodes of the job some work.
//
// Thread rule: the main thread; handlers come from the loop, never from inside a call. Ownership:
// destroy it before its io_context.
#pragma once

#include "launcher/evidence/call_watch.hpp"
#include "launcher/evidence/gather.hpp"
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
  // A rank that has not moved for so long stands still, where something else ends the round.
  std::chrono::milliseconds still_after{4000};
};

// A rank that lives.
struct watched_rank {
  rank_evidence known;           // who it is
  std::uint64_t said_bytes = 0;  // so far
};

class rank_watch {
 public:
  struct outside {
    std::function<std::vector<watched_rank>()> living;
    std::function<void(rank_evidence& known)> add_words;  // what it printed last
    std::function<std::vector<std::string>()> memory_files;
    // The rank hangs: all have stood for the limit, at two looks at their stacks, and after them.
    std::function<void(const hang_verdict& verdict, duration still_for)> hangs;
    // The same, and it cannot be said whose fault that is. Either is said once a stretch.
    std::function<void(const std::string& sentence, duration still_for)> stands;
    // In a round of several nodes, after either: where each stands. None: one has moved again.
    std::function<void(std::optional<stall> seen)> stalls;
  };

  rank_watch(boost::asio::any_io_executor executor, watch_options options, outside with);

  // A round's workers run; `sees_all`: it has no other node.
  void begin(bool sees_all);
  // They are being ended, or have ended.
  void end();

  // A rank here has not moved for some seconds: where the round ends, it may be the reason. One
  // that spins in a call does not count. Neither this nor the next is true before `begin` and after
  // `end`.
  bool is_any_still() const;

  // Asks all ranks that live, once for all who want to know until it is done. It takes the limit at
  // most; where the kernel holds it up for longer, nothing is known. Unheard in the next round.
  void gather(std::function<void()> done);
  bool is_gathering() const { return is_on_ && gathering_.under_way(); }
  // No rank has moved for the limit, and each was found twice where it stands.
  bool is_stalled() const { return is_on_ && is_told_; }
  // Of this round; none: nothing was gathered yet.
  const std::optional<node_evidence>& gathered() const { return gathered_; }

 private:
  void look_later();
  void look();
  struct look_result {
    movement seen;
    call_watch::answer calls;  // of those that spin
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
  bool is_told_ = false;  // that all stand still
  bool is_comparing_ = false;
  std::optional<node_evidence> stood_;  // the first of two looks at stacks that were the same
  stillness still_;
  std::chrono::milliseconds pause_;
  time_point looked_at_{};  // by the clock
  time_point watched_{};    // the same without the time in which nobody looked
  movement last_;
  std::map<pid_t, std::uint64_t> said_;
  struct steps_said {
    std::uint64_t last = 0;
    bool is_rhythm = false;  // more than one: it says each
  };
  std::map<pid_t, steps_said> steps_;  // of those that say any
  ras_place nccl_;                     // where its counts are asked for
  std::shared_ptr<call_watch> calls_;  // of this round
  std::set<pid_t> asked_;              // by it
  std::set<pid_t> spinning_;           // in one call, since they have moved otherwise
  std::string counts_;                 // NCCL's, since when nobody has moved; empty: not known
  time_point nccl_again_{};            // it has not answered: not before
  std::optional<node_evidence> gathered_;
  std::vector<std::function<void()>> waiting_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer again_;  // between two looks at stacks
  boost::asio::steady_timer late_;   // a gathering that hangs itself
  background_task<look_result> looking_;
  background_task<std::string> asking_;
  background_task<node_evidence> gathering_;
};

}  // namespace ddprun::launcher::evidence
