// Ranks that stand still: what a node says of its own, and the rules by which one of them is named.
//
// A node says it when none of its ranks has moved for its limit (the first witness), and two looks
// at where they stand have found the same (the second). The rules are those of one node for its own
// ranks, and of the daemon for all of a round, of which every node must have said so:
//
//   a rank is stopped (SIGSTOP)                        that one
//   a rank is at a place that nobody can see           nobody
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
  stopped,    // by a signal
  elsewhere,  // in no collective
  waits,      // in a collective
};
std::string_view to_string(stall_kind value);  // the word of the protocol

// Ranks that follow each other and stand alike.
struct stalled_ranks {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // this one, too; >= first
  stall_kind kind = stall_kind::unseen;
  std::string words;  // "waited in all_reduce, step (train.py:41)", behind who it is
  bool operator==(const stalled_ranks&) const = default;
};

// Of one node. What is beyond is not told.
inline constexpr std::size_t stalled_ranks_max = 8;
inline constexpr std::size_t stall_words_bytes_max = 160;

// A node none of whose ranks moves.
struct stall {
  duration age{};          // since the last move of any, at the moment of sending
  bool is_learnt = false;  // nobody has set the limit that it has passed
  std::vector<stalled_ranks> ranks;
  bool operator==(const stall&) const = default;
};

// A rank that hangs, and the sentence about it and all others.
struct hung_rank {
  std::uint32_t rank = 0;
  std::string text;
  bool operator==(const hung_rank&) const = default;
};

// In a size that does not grow with the node: stretches that touch made one, those that say most
// first.
std::vector<stalled_ranks> in_short(std::vector<stalled_ranks> ranks);

// Only what is of these ranks, `count` from `first` on.
std::vector<stalled_ranks> within(const std::vector<stalled_ranks>& ranks, std::uint32_t first,
                                  std::uint32_t count);

// "rank 3 stood in forward (train.py:88) while 7 ranks waited in all_reduce, step (train.py:41)";
// those that wait for others come last. Empty: of none it is known where it stands.
std::string sentence_of(const std::vector<stalled_ranks>& ranks);

struct stall_scope {
  bool sees_all = false;       // these are all ranks of the round
  bool needs_waiting = false;  // a limit is learnt: somebody must wait in a collective
};

// None: it cannot be said who it is.
std::optional<std::uint32_t> rank_that_hangs(const std::vector<stalled_ranks>& ranks,
                                             const stall_scope& scope);

}  // namespace ddprun
