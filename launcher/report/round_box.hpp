// The box: all that a person is told of a round that failed, once, and the same on each node.
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

// Something failed in it: a worker, its start, or a node; nobody asked for its end.
bool is_failure(const round_report& report);

// More than the sentence with which the run ends is known of it.
bool is_worth_a_box(const round_report& report);

// Of such a round, without the last newline, at most 25 lines. `output`: where all that the first
// cause has said can be read; empty: not here. `stood`: where this node's ranks stood before they
// were ended; empty: that is not known. `reached`: how far these had said they were ("step 1204");
// empty: they had said nothing.
std::string round_box(const round_report& report, const std::string& output,
                      const std::string& stood = {}, const std::string& reached = {});

// Where a round has more nodes than this, the box is told by its leader, and on the node of the
// root cause; the others say where, in one line: thousands of copies are no help.
inline constexpr std::uint32_t nodes_with_boxes_max = 8;

// That line, of such a round.
std::string round_line(const round_report& report);

// "ranks 0 and 1 ended because of it; rank 3 was stopped"; without the rank of the root cause.
// Empty: there is none, or nothing is known of them.
std::string others_text(const round_report& report);

}  // namespace ddprun::launcher
