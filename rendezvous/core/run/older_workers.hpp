// Workers that may live of instances before the one here, as far as this daemon has heard: of nodes
// that are here and were told to end them, and of nodes that have gone without a word.
//
// Thread rule: one thread, as run.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <map>

namespace ddprun::core {

class older_workers {
 public:
  using orders = std::map<std::uint64_t, time_point>;  // by join order: told when

  // Nodes that end their workers. True: that is news.
  bool add_ending(std::uint64_t order, time_point now);
  bool drop_ending(std::uint64_t order);
  const orders& ending() const { return ending_; }

  // Of nodes that have gone: none of their workers lives from then on. By the clock: this moment
  // does not move when the loop was late.
  void raise_lost_until(time_point until);
  time_point lost_until() const { return lost_until_; }
  // They are of the round that was found, whose stop counts them.
  void drop_lost() { lost_until_ = {}; }

  // The caller's loop stood still for so long.
  void move_by(duration late);

 private:
  orders ending_;
  time_point lost_until_{};
};

}  // namespace ddprun::core
