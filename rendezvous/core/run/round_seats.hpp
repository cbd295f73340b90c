// The seats of the newest round, by slot: who holds them, how far each has come, and what became of
// it. Seat 0 is the leader's.
//
//   fate         becomes                    by
//   unreachable  in_reach                   take (a holder is known), mark_reached
//   in_reach     unreachable, ended, dead   mark_unreachable, mark_ended, mark_dead
//   unreachable  ended, dead                mark_ended, mark_dead
//   ended        dead                       mark_dead
//
// Always: every seat has one fate, and how many have which is counted here, never scanned. A seat
// whose holder is not known is unreachable, or dead; a holder knows its seat.
//
// Ownership: the seats, not who holds them. A reference to a seat is good until `clear`.
// Thread rule: one thread, as run.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/run/seat.hpp"

#include <deque>
#include <optional>

namespace ddprun::core {

class round_seats {
 public:
  // A fresh round: so many seats of which nobody is known yet.
  void open(std::uint32_t size);
  // More of them than was known; no seat is lost.
  void grow(std::uint32_t size);
  // It gets this free seat. What it is to run there: ranks from this one on.
  seat& take(std::uint32_t slot, node& holder, std::uint32_t rank_first = 0,
             const std::optional<role_ranks>& in_role = std::nullopt);
  // The round is over: nobody has a seat.
  void clear();

  bool empty() const { return seats_.empty(); }
  std::size_t size() const { return seats_.size(); }
  std::deque<seat>::iterator begin() { return seats_.begin(); }
  std::deque<seat>::iterator end() { return seats_.end(); }
  std::deque<seat>::const_iterator begin() const { return seats_.begin(); }
  std::deque<seat>::const_iterator end() const { return seats_.end(); }
  bool is_free(std::uint32_t slot) const {
    return seats_[slot].holder() == nullptr && !seats_[slot].has_ended();
  }
  node& leader() const;  // must be known

  // Seats of which nothing is known.
  std::size_t unknown() const { return unknown_; }
  // Where all workers run, or have run: none of these falls back.
  std::size_t running() const { return running_; }
  std::size_t succeeded() const { return succeeded_; }
  std::size_t unreachable() const { return unreachable_; }
  // Of every seat it is known that its workers have ended, or it cannot be reached.
  bool are_all_ended_or_unreachable() const { return ended_ + unreachable_ == seats_.size(); }

  // Until then all must run; over when they do.
  void start_until(machine_time moment) { start_until_ = moment; }
  void end_start() { start_until_.reset(); }
  const std::optional<machine_time>& start_deadline() const { return start_until_; }

  void command(seat& one, core::command what) { one.command_ = what; }
  // While the round is on, and only forward. True: with it all run.
  bool advance(seat& one, member_phase next);
  // Its workers failed, stopped or were lost.
  void fall(seat& one, member_phase to);
  void succeed(seat& one);

  // The table above; each changes nothing where it was so. Unreachable: only one that was told to
  // run, and that has not ended.
  void mark_unreachable(seat& one);
  bool mark_reached(seat& one);  // true where it was unreachable
  void mark_ended(seat& one);
  void mark_dead(seat& one);
  bool acknowledge(seat& one);  // true the first time
  void set_away(seat& one, bool is_away) { one.is_away_ = is_away; }
  void set_unanswered(seat& one, bool is_unanswered) { one.is_unanswered_ = is_unanswered; }

 private:
  void set_fate(seat& one, fate next);
  std::size_t* count_of(fate one);
  void check() const;

  std::deque<seat> seats_;
  std::size_t unknown_ = 0;
  std::size_t running_ = 0;
  std::size_t succeeded_ = 0;
  std::size_t unreachable_ = 0;
  std::size_t ended_ = 0;  // dead ones, too
  std::optional<machine_time> start_until_;
};

}  // namespace ddprun::core
