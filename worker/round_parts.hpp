// What a process has of a round and may wait in for other ranks, above all its process groups. When
// the round is over and the process lives on (survive.hpp), these waits are ended, so that the
// thread that waits hears of it.
//
// Thread rule: any thread.
#pragma once

#include <memory>
#include <vector>

namespace ddprun::worker {

class round_part {
 public:
  virtual ~round_part() = default;
  // Every wait in it for another rank ends with an error, and so does each later one. Called from
  // another thread than the one that waits, and again and again until the round is left.
  virtual void end_waits() = 0;
  // The round is left. Called by the thread that has left it, when nothing waits any more.
  virtual void left() {}
};

// It is one of the round's until it is destroyed.
void add_round_part(const std::weak_ptr<round_part>& part);
// Those that still live.
std::vector<std::shared_ptr<round_part>> round_parts();

// From here on this process cannot leave a round alive: it may have work on a GPU that uses what an
// ended wait has left half done.
void stay_in_round();
bool can_leave_round();

// While one lives, connections to the round's store are not ended: the ranks that are left when one
// has failed have something to tell each other there.
class round_store_in_use {
 public:
  round_store_in_use();
  ~round_store_in_use();
  round_store_in_use(const round_store_in_use&) = delete;
  round_store_in_use& operator=(const round_store_in_use&) = delete;
};
bool is_round_store_in_use();

}  // namespace ddprun::worker
