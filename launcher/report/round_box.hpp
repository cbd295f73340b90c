// The box is all that a user is told about a failed round, once, and the same on each node.
//
//   round 1 failed 8.2 s after its start; the root cause:
//     | node-b: rank 2 (local rank 1) exited with code 1: ValueError: loss is NaN
//     | process 4711, in a first try
//     | where it failed, the innermost last:
//     |   train.py:8 in step: raise ValueError("loss is NaN")
//     | ranks 0 and 1 ended because of it; rank 3 was stopped
//     | next: restart 1 of 3
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <string>

namespace ddprun::launcher {

// True if a worker, its start, or a node has failed, and nobody asked for the end.
bool is_failure(const round_report& report);

// True if more is known than the sentence with which the run ends.
bool is_worth_a_box(const round_report& report);

// The box of such a round, without the last newline, at most 25 lines. `output`: where the whole
// output of the root cause is; empty: not on this node. `stood`: where this node's ranks stood
// before they were killed; empty: unknown. `reached`: the progress that these had reported ("step
// 1204"); empty: none.
std::string round_box(const round_report& report, const std::string& output,
                      const std::string& stood = {}, const std::string& reached = {});

// In a round of more nodes than this, only the leader and the node of the root cause print the box;
// the others say in one line where it is, because thousands of copies help nobody.
inline constexpr std::uint32_t nodes_with_boxes_max = 8;

// That line for such a round.
std::string round_line(const round_report& report);

// "ranks 0 and 1 ended because of it; rank 3 was stopped", without the rank of the root cause.
// Empty: there is no other rank, or nothing is known about them.
std::string others_text(const round_report& report);

}  // namespace ddprun::launcher
