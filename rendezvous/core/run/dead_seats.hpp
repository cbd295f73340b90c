// Seats of rounds of an earlier daemon whose workers are dead for certain, by the word of their
// agent's guardian. That daemon lived in the agent and died with it, so nobody here knows its
// session: its guardian says where its workers were.
//
// Always: at most dead_seats_max are remembered; of more the others are fenced by time.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/messages/types.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>

namespace ddprun::core {

inline constexpr std::size_t dead_seats_max = 64;

struct dead_seat {
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t slot = 0;
  auto operator<=>(const dead_seat&) const = default;
};

class dead_seats {
 public:
  void add(const dead_seat& one) {
    if (seats_.size() < dead_seats_max) seats_.insert(one);
  }
  bool contains(const dead_seat& one) const { return seats_.contains(one); }
  std::size_t count() const { return seats_.size(); }
  // Of this round there is one.
  bool has_any_of(instance_id instance, round_number round) const {
    const auto found = seats_.lower_bound({instance, round, 0});
    return found != seats_.end() && found->instance == instance && found->round == round;
  }

 private:
  std::set<dead_seat> seats_;
};

}  // namespace ddprun::core
