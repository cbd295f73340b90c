// Workers that may live of instances before the one here, as far as this daemon has heard: of nodes
// that are here and were told to end them, and of nodes that have gone without a word.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <map>

namespace ddprun::core {

class stale_workers {
 public:
  using orders = std::map<std::uint64_t, machine_time>;  // by join order: told when

  // Nodes that end their workers. True: that is news.
  bool add_ending(std::uint64_t order, machine_time now);
  bool drop_ending(std::uint64_t order);
  const orders& ending() const { return ending_; }

  // Of nodes that have gone: none of their workers lives from then on. It is real
  // time: they need no loop of this daemon to end.
  void raise_lost_until(time_point until);
  time_point lost_until() const { return lost_until_; }
  // They are of the round that was found, whose stop counts them.
  void drop_lost() { lost_until_ = {}; }

 private:
  orders ending_;
  time_point lost_until_{};
};

}  // namespace ddprun::core
