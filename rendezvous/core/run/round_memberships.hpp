// The memberships of the newest round, by group rank: who holds them, how far each has come, and
// what became of it. Membership 0 is the leader's.
//
//   liveness     becomes                    by
//   unreachable  in_reach                   take (a holder is known), mark_reached
//   in_reach     unreachable, ended, dead   mark_unreachable, mark_ended, mark_dead
//   unreachable  ended, dead                mark_ended, mark_dead
//   ended        dead                       mark_dead
//
// Always: every membership has one liveness, and how many have which is counted here, never
// scanned. A membership whose holder is not known is unreachable, or dead; a holder knows its
// membership.
//
// Ownership: the memberships, not who holds them. A reference to one is good until `clear`.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/membership.hpp"

#include <deque>
#include <optional>

namespace ddprun::core {

class round_memberships {
 public:
  // A fresh round: so many memberships of which nobody is known yet.
  void open(std::uint32_t size);
  // More of them than was known; no membership is lost.
  void grow(std::uint32_t size);
  // It gets this free membership. What it is to run there: ranks from this one on.
  membership& take(std::uint32_t group_rank, node& holder, std::uint32_t rank_first = 0,
                   const std::optional<role_ranks>& in_role = std::nullopt);
  // The round is over: nobody has a membership.
  void clear();

  bool empty() const { return memberships_.empty(); }
  std::size_t size() const { return memberships_.size(); }
  std::deque<membership>::iterator begin() { return memberships_.begin(); }
  std::deque<membership>::iterator end() { return memberships_.end(); }
  std::deque<membership>::const_iterator begin() const { return memberships_.begin(); }
  std::deque<membership>::const_iterator end() const { return memberships_.end(); }
  bool is_free(std::uint32_t group_rank) const {
    return memberships_[group_rank].holder() == nullptr && !memberships_[group_rank].has_ended();
  }
  bool is_unreachable(std::uint32_t group_rank) const {
    return group_rank < memberships_.size() && memberships_[group_rank].is_unreachable();
  }
  node& leader() const;  // must be known

  // Memberships of which nothing is known.
  std::size_t unknown() const { return unknown_; }
  // Where all workers run, or have run: none of these falls back.
  std::size_t running() const { return running_; }
  std::size_t succeeded() const { return succeeded_; }
  std::size_t unreachable() const { return unreachable_; }
  // Of every membership it is known that its workers have ended, or it cannot be reached.
  bool are_all_ended_or_unreachable() const { return ended_ + unreachable_ == memberships_.size(); }

  // Until then all must run; over when they do.
  void start_until(machine_time moment) { start_until_ = moment; }
  void end_start() { start_until_.reset(); }
  const std::optional<machine_time>& start_deadline() const { return start_until_; }

  void command(membership& one, core::command what) { one.command_ = what; }
  // While the round is on, and only forward. True: with it all run.
  bool advance(membership& one, member_phase next);
  // Its workers failed, stopped or were lost.
  void fall(membership& one, member_phase to);
  void succeed(membership& one);

  // The table above; each changes nothing where it was so. Unreachable: only one that was told to
  // run, and that has not ended.
  void mark_unreachable(membership& one);
  bool mark_reached(membership& one);  // true where it was unreachable
  void mark_ended(membership& one);
  void mark_dead(membership& one);
  bool acknowledge(membership& one);  // true the first time
  void set_away(membership& one, bool is_away) { one.is_away_ = is_away; }
  void set_unacked(membership& one, bool is_unacked) { one.is_unacked_ = is_unacked; }

 private:
  void set_liveness(membership& one, worker_liveness next);
  std::size_t* count_of(worker_liveness one);
  void check() const;

  std::deque<membership> memberships_;
  std::size_t unknown_ = 0;
  std::size_t running_ = 0;
  std::size_t succeeded_ = 0;
  std::size_t unreachable_ = 0;
  std::size_t ended_ = 0;  // dead ones, too
  std::optional<machine_time> start_until_;
};

}  // namespace ddprun::core
