// How the nodes of a round come to one entry: each puts its word into the job's store and reads
// those of all; each sees to it that it has its part of what they have in common, and says whether
// it does. Where one does not, all take the next one (common_entry.hpp has the choice).
//
// What all do next is one verdict for each turn, by the store's compare and set: of a node that
// gives up all hear, and none goes on alone. The last that comes says "yes", the first that has no
// part "no"; the others wait for that one key. Meanwhile each counts on its heartbeat, and looks at
// that of the next node: what a round costs the store grows with the number of its nodes, but for
// the words, which everybody reads.
//
// A node without a vault says so in its word and goes its way: nobody waits for it. Whether there
// is anybody to say it to it knows from the leader (leader_mark.hpp).
//
//   ddprun-vault/ROUND/word/NODE     its word
//   ddprun-vault/ROUND/alive/NODE    a number that grows
//   ddprun-vault/ROUND/arrived-TURN  how many nodes have said their word, or have their part (of
//                                    those with a vault)
//   ddprun-vault/ROUND/verdict-TURN  "yes", "no", "apart WHY", "silent WHY"; TURN 0 is of the words
//
// Thread rule: a thread that may wait; it asks `goes_on` again and again, and ends where that is
// false. Errors: `why`.
#pragma once

#include "launcher/vault/common_entry.hpp"
#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::vault {

// This node's place in a round.
struct round_place {
  std::uint32_t group_rank = 0;
  std::uint32_t nodes = 1;
  std::uint64_t round = 0;
  bool is_together = false;      // with the other nodes, where there are any
  bool has_leader_vault = true;  // else nobody asks the nodes without one for their word
  origin from;                   // of what is saved in this round
  std::string store_address;     // as this node dials the job's store
  std::uint16_t store_port = 0;  // 0: there is none before the workers are there
  std::string own_address;       // by which the other nodes find this one; empty: not known
  // So long nodes may be apart: one may still copy what it had, or look at a disk that is slow.
  duration word_limit = std::chrono::seconds(20);
  // A node that has given no sign of life for so long is not waited for.
  duration silence_limit = std::chrono::seconds(30);
  duration beat_interval = std::chrono::seconds(1);
};

struct agreed {
  common_choice choice;
  std::vector<node_word> words;  // by group rank
};

struct disagreement {
  std::string problem;      // a line's end; empty where the round is over
  bool is_silence = false;  // a node said nothing: it may be of a version that cannot
};

using bring_part = std::function<bool(const agreed& so_far, const std::function<bool()>& goes_on)>;

// `bring`: makes this node have its part, and says whether it has. It asks `goes_on` all the while,
// by which the others know that it is alive.
std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on, const bring_part& bring,
                            disagreement& why);

// This node has no vault. False: the store has not heard it.
bool say_without_vault(const round_place& here);

}  // namespace ddprun::launcher::vault
