// In which order the nodes of a doctor's meeting turn to each other.
//
// Thread rule: pure functions over indexes, from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::launcher::doctor {

// All others, beginning with the next one: when all begin at once, no node is asked by more than
// one in the first step, nor in any other.
std::vector<std::uint32_t> order_of_others(std::uint32_t own, std::uint32_t nodes);

// A tournament in which each node meets each other once, and one at a time: in step `step` of
// `tournament_steps` this is the partner of `own`; none: it rests.
std::uint32_t tournament_steps(std::uint32_t nodes);
std::optional<std::uint32_t> tournament_partner(std::uint32_t own, std::uint32_t step,
                                                std::uint32_t nodes);

}  // namespace ddprun::launcher::doctor
