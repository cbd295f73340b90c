// In which order the nodes of a doctor's meeting try each other. If there are few, each tries all
// others. Each node reads what every node has seen of every other, some 250 bytes per pair: 128
// nodes read half a GB from the daemon in total, 256 would read 4 GB and, with 13 connections per
// pair, make 800,000.
//
// If there are more, each node tries those 1, 2, 4, 8, ... positions further on. So every node is
// tried by as many as it tries, near and far. This finds what is wrong with a node, or between two
// groups, but not always what is wrong between just two nodes.
//
// Thread rule: pure functions of indexes from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::launcher::doctor {

inline constexpr std::uint32_t all_pairs_max = 128;  // nodes

// The nodes that `own` tries, starting with the next one: if all start together, no node is tried
// by more than one other in any step.
std::vector<std::uint32_t> order_of_others(std::uint32_t own, std::uint32_t nodes);

// A tournament in which each node meets each other once, one at a time: the partner of `own` in
// step `step` of `tournament_steps`; empty: it pauses. If not all pairs are tried, there are as
// many steps as `order_of_others` has nodes.
std::uint32_t tournament_steps(std::uint32_t nodes);
std::optional<std::uint32_t> tournament_partner(std::uint32_t own, std::uint32_t step,
                                                std::uint32_t nodes);

}  // namespace ddprun::launcher::doctor
