// Rank assignment chooses the members of a round and gives them their ranks: DESIGN.md, rule 2.
//
// Members of the last round come first, then joiners by node-rank hint (those with a hint before
// those without), natural order of host names and join order, up to `nodes_max`. Group rank 0 goes
// to a survivor while there is one, because a survivor is where a snapshot may lie in memory or on
// a local disk. Survivors keep their group ranks; joiners fill the holes, then follow at the end;
// holes that nobody fills are closed up. Global ranks are prefix sums of the worker counts; if
// nodes have different roles, ranks within a role are prefix sums over its nodes.
//
// The result depends on the candidates alone, not on the order in which they are handed in.
//
// Ownership: a candidate's `host` and `role` must outlive the call.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::core {

struct rank_candidate {
  std::string_view host;
  std::optional<std::uint32_t> node_rank;        // the person's hint
  std::optional<std::uint32_t> last_group_rank;  // in the last round; none: it was not a member
  std::uint64_t join_order = 0;                  // unique
  std::uint32_t worker_count = 1;
  std::string_view role = {};
};

struct assigned_ranks {
  std::size_t candidate = 0;          // index into what was handed in
  std::uint32_t rank_first = 0;       // global rank of its local rank 0
  std::optional<role_ranks> in_role;  // none: all have one role
};

struct rank_assignment {
  std::vector<assigned_ranks> by_group_rank;  // by group rank
  std::uint32_t world_size = 0;
};

rank_assignment assign_ranks(const std::vector<rank_candidate>& candidates,
                             std::uint32_t nodes_max);

// node2 before node10: runs of digits compare as numbers, everything else by byte. Names that
// differ in leading zeros only compare by byte, so that the order is total.
bool natural_less(std::string_view left, std::string_view right);

}  // namespace ddprun::core
