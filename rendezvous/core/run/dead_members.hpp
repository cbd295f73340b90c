// Memberships of rounds of an earlier daemon whose workers are dead for certain, by the word of
// their agent's guardian. That daemon lived in the agent and died with it, so nobody here knows its
// session: its guardian says where its workers were, and, for people, which node it was.
//
// Always: at most dead_members_max are remembered; of more the others are fenced by time.
#pragma once

#include "rendezvous/core/messages/types.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace ddprun::core {

inline constexpr std::size_t dead_members_max = 64;

struct dead_member {
  instance_id instance = 0;
  round_number round = 0;
  std::uint32_t group_rank = 0;
  auto operator<=>(const dead_member&) const = default;
};

// The holder of the membership, as far as that was said.
struct dead_node {
  std::string label;
  std::string address;
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 0;  // 0: not said
  session_id session{};
};

class dead_members {
 public:
  void add(const dead_member& one, dead_node who = {}) {
    if (memberships_.size() < dead_members_max) memberships_.try_emplace(one, std::move(who));
  }
  bool contains(const dead_member& one) const { return memberships_.contains(one); }
  // Null: it is not known to be dead.
  const dead_node* find(const dead_member& one) const {
    const auto found = memberships_.find(one);
    return found == memberships_.end() ? nullptr : &found->second;
  }
  std::size_t count() const { return memberships_.size(); }
  // Of this round there is one.
  bool has_any_of(instance_id instance, round_number round) const {
    const auto found = memberships_.lower_bound({instance, round, 0});
    return found != memberships_.end() && found->first.instance == instance &&
           found->first.round == round;
  }

 private:
  std::map<dead_member, dead_node> memberships_;
};

}  // namespace ddprun::core
