// How the nodes of a round come to one entry: each puts its word into the job's store and reads
// those of all; each sees to it that it has its part of what they have in common, and says whether
// it does. Where one does not, all take the next one (common_entry.hpp has the choice).
//
// Thread rule: a thread that may wait; it asks `goes_on` again and again, and ends where that is
// false. Errors: `problem`, a line's end; empty where the round is over.
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
  origin from;                   // of what is saved in this round
  std::string store_address;     // as this node dials the job's store
  std::uint16_t store_port = 0;  // 0: there is none before the workers are there
  std::string own_address;       // by which the other nodes find this one; empty: not known
  // So long nodes may be apart: one may still copy what it had, or look at a disk that is slow.
  duration word_limit = std::chrono::seconds(20);
};

struct agreed {
  common_choice choice;
  std::vector<node_word> words;  // by group rank
};

// `bring`: makes this node have its part, and says whether it has.
std::optional<agreed> agree(const round_place& here, const node_word& own,
                            const std::function<bool()>& goes_on,
                            const std::function<bool(const agreed& so_far)>& bring,
                            std::string& problem);

}  // namespace ddprun::launcher::vault
