// In which order the nodes of a doctor's meeting turn to each other: to all, as long as they are
// few. Each node reads what each has seen of each, some 250 bytes a pair: 128 nodes draw half a GB
// from the daemon in all, 256 would draw 4 GB, and 13 connections a pair would be 800,000.
//
// Where they are more, each turns to those 1, 2, 4, 8, ... places further on. Every node is tried
// by as many as it tries itself, near and far in their order: what is wrong with a node, or between
// two groups of them, is seen; what is wrong between two nodes alone may not be.
//
// Thread rule: pure functions over indexes, from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::launcher::doctor {

inline constexpr std::uint32_t all_pairs_max = 128;  // nodes

// Whom `own` tries, beginning with the next one: when all begin at once, no node is asked by more
// than one in the first step, nor in any other.
std::vector<std::uint32_t> order_of_others(std::uint32_t own, std::uint32_t nodes);

// A tournament in which each node meets each other once, and one at a time: in step `step` of
// `tournament_steps` this is the partner of `own`; none: it rests. Where not all pairs are tried it
// has as many steps as `order_of_others` has others.
std::uint32_t tournament_steps(std::uint32_t nodes);
std::optional<std::uint32_t> tournament_partner(std::uint32_t own, std::uint32_t step,
                                                std::uint32_t nodes);

}  // namespace ddprun::launcher::doctor
