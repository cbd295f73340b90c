// Memberships of rounds of an earlier daemon whose workers are dead for certain, by the word of
// their agent's guardian. That daemon lived in the agent and died with it, so nobody here knows its
// session: its guardian says where its workers were.
//
// Always: at most dead_members_max are remembered; of more the others are fenced by time.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/messages/types.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>

namespace ddprun::core {

inline constexpr std::size_t dead_members_max = 64;

struct dead_member {
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t group_rank = 0;
  auto operator<=>(const dead_member&) const = default;
};

class dead_members {
 public:
  void add(const dead_member& one) {
    if (memberships_.size() < dead_members_max) memberships_.insert(one);
  }
  bool contains(const dead_member& one) const { return memberships_.contains(one); }
  std::size_t count() const { return memberships_.size(); }
  // Of this round there is one.
  bool has_any_of(instance_id instance, round_number round) const {
    const auto found = memberships_.lower_bound({instance, round, 0});
    return found != memberships_.end() && found->instance == instance && found->round == round;
  }

 private:
  std::set<dead_member> memberships_;
};

}  // namespace ddprun::core
