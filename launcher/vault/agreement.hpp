// How the nodes of a round agree on one entry. Each node puts its word, a list of what it holds,
// into the job's store and reads the words of all. Then each gets its part of the entry that they
// have in common, and reports whether it has it. If one does not, all try the next entry
// (common_entry.hpp makes the choice).
//
// Each turn ends with one verdict, which the store's compare-and-set makes final: all nodes hear if
// one gives up, and none goes on alone. The last node to arrive writes "yes", the first that cannot
// get its part writes "no"; the others wait for that one key. Meanwhile each node increments its
// heartbeat and reads that of the next node. So the store's work grows linearly with the number of
// nodes, except for the words, which every node reads.
//
// A node without a vault says so in its word, and no node waits for it. The leader's mark tells it
// whether any node wants to know (leader_mark.hpp).
//
//   ddprun-vault/ROUND/word/NODE     its word
//   ddprun-vault/ROUND/alive/NODE    a number that grows
//   ddprun-vault/ROUND/arrived-TURN  how many nodes have written their word, or have their part
//                                    (of those with a vault)
//   ddprun-vault/ROUND/verdict-TURN  "yes", "no", "apart WHY", "silent WHY"; TURN 0 is of the
//                                    words
//
// Thread rule: a thread that may block; it calls `goes_on` again and again, and stops once that
// returns false. Errors: `why`.
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

struct round_place {
  std::uint32_t group_rank = 0;
  std::uint32_t nodes = 1;
  std::uint64_t round = 0;
  bool is_together = false;      // shares entries with the other nodes, if there are any
  bool has_leader_vault = true;  // else nodes without a vault do not write their word
  origin from;                   // of what is saved in this round
  std::string store_address;     // as this node dials the job's store
  std::uint16_t store_port = 0;  // 0: the store exists only once the workers run
  std::string own_address;       // where other nodes reach this one; empty: unknown
  // How long to wait for all words: a node may still be copying, or reading a slow disk.
  duration word_limit = std::chrono::seconds(20);
  // A node without a heartbeat for so long is given up.
  duration silence_limit = std::chrono::seconds(30);
  duration beat_interval = std::chrono::seconds(1);
};

struct agreed {
  common_choice choice;
  std::vector<node_word> words;  // by group rank
};

struct disagreement {
  std::string problem;      // for the end of a line; empty: the round is over
  bool is_silence = false;  // a node wrote no word: its ddprun may be too old to do so
};

using bring_part = std::function<bool(const agreed& so_far, const std::function<bool()>& goes_on)>;

// `bring` gets this node its part, and returns whether it has it. Meanwhile it has to call
// `goes_on`, which sends the heartbeats.
std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on, const bring_part& bring,
                            disagreement& why);

// Reports that this node has no vault. False: the store has not accepted it.
bool say_without_vault(const round_place& here);

}  // namespace ddprun::launcher::vault
