// Ranks that stand still: what a node reports of its own, and the rules by which one of them is
// named.
//
// A node reports a stall when none of its ranks has moved for its limit (the first witness), and
// two looks found them in the same places (the second). One node applies the rules to its own
// ranks, and the daemon to all ranks of a round, once every node has reported a stall:
//
//   a rank is stopped (SIGSTOP), or stuck in the       that one
//   kernel (state D)
//   a rank is at a place that cannot be seen           none
//   some wait in a collective, others elsewhere        the first of those elsewhere
//   all wait, and all ranks of the round are seen      the fewest that are alike, else the first
//   none waits, all are seen, a person set the limit   the same
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

enum class stall_kind {
  unseen,     // no stack: a program that is not Python, or one that did not answer
  stopped,    // by a signal, or by the kernel, which does not end a wait
  elsewhere,  // in no collective
  waits,      // in a collective
};
std::string_view to_string(stall_kind value);  // the word of the protocol

// Consecutive ranks that stand alike.
struct stalled_ranks {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // inclusive; >= first
  stall_kind kind = stall_kind::unseen;
  std::string words;  // "waited in all_reduce, step (train.py:41)", after who it is
  bool operator==(const stalled_ranks&) const = default;
};

// How many one node reports; further ones are left out.
inline constexpr std::size_t stalled_ranks_max = 8;
inline constexpr std::size_t stall_words_bytes_max = 160;

// What a node reports while none of its ranks moves.
struct stall {
  duration age{};          // since the last move of any, at the moment of sending
  bool is_learnt = false;  // the limit that has passed was learnt: no person has set it
  std::vector<stalled_ranks> ranks;
  bool operator==(const stall&) const = default;
};

// A rank that hangs, and the sentence about it and all others.
struct hung_rank {
  std::uint32_t rank = 0;
  std::string text;
  bool operator==(const hung_rank&) const = default;
};

// Bounded in size, whatever the size of the node: adjacent ranges are joined, and those that say
// most come first.
std::vector<stalled_ranks> in_short(std::vector<stalled_ranks> ranks);

// Only the part about these ranks, `count` from `first` on.
std::vector<stalled_ranks> within(const std::vector<stalled_ranks>& ranks, std::uint32_t first,
                                  std::uint32_t count);

// "rank 3 stood in forward (train.py:88) while 7 ranks waited in all_reduce, step (train.py:41)";
// those that wait for others come last. Empty: of none it is known where it stands.
std::string sentence_of(const std::vector<stalled_ranks>& ranks);

struct stall_scope {
  bool sees_all = false;       // these are all ranks of the round
  bool needs_waiting = false;  // a limit is learnt: somebody must wait in a collective
};

// None: it is not known which rank hangs.
std::optional<std::uint32_t> rank_that_hangs(const std::vector<stalled_ranks>& ranks,
                                             const stall_scope& scope);

}  // namespace ddprun
