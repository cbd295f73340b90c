// Round parts are the objects of a round in which a process may wait for other ranks, mostly its
// process groups. When the round is over and the process lives on (survive.hpp), these waits are
// ended, so that the waiting thread gets an error.
//
// Thread rule: any thread.
#pragma once

#include <memory>
#include <vector>

namespace ddprun::worker {

class round_part {
 public:
  virtual ~round_part() = default;
  // Ends every wait for another rank with an error, and makes later waits fail as well. It is
  // called from another thread than the waiting one, repeatedly until the round is left.
  virtual void end_waits() = 0;
  // Called by the thread that has left the round, when nothing waits any more.
  virtual void left() {}
};

// Registers the part until it is destroyed.
void add_round_part(const std::weak_ptr<round_part>& part);
// The parts that still exist.
std::vector<std::shared_ptr<round_part>> round_parts();

// From this call on the process cannot survive a round: work on a GPU may depend on a result that
// an ended wait has left half done.
void stay_in_round();
bool can_leave_round();

// Whether the agent has said that the round is over: a rank is lost then, whether or not this
// process can leave the round. The link to the agent sets it, and clears it for the next round.
void set_round_is_over(bool is_over);
bool is_round_over();

// While an object of this class exists, connections to the round's store are left open, because the
// surviving ranks still exchange messages there after one has failed.
class round_store_in_use {
 public:
  round_store_in_use();
  ~round_store_in_use();
  round_store_in_use(const round_store_in_use&) = delete;
  round_store_in_use& operator=(const round_store_in_use&) = delete;
};
bool is_round_store_in_use();

}  // namespace ddprun::worker
