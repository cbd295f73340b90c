// The ranks of a round agree on the snapshot to resume from: rank 0 claims the folder and chooses a
// snapshot, each rank reads its part, and if one of them finds damage, none of them uses it.
//
// A rank says that it has its part when its files are read, and what others have read for it has
// come. Of the files with pieces of larger tensors each is read by one rank, so that what is
// damaged is found before any rank goes on; where another rank alone cannot open one, it hears so
// when it asks for a region in it. A job that goes on from the snapshot is noted
// (snapshot_history::mark_resumed) when all have their part.
#pragma once

#include "worker/snapshot/history.hpp"
#include "worker/snapshot/rank_exchange.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/rank_messages.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <optional>
#include <string>
#include <variant>

namespace ddprun::worker {

class vault_tier;

struct resuming {
  file_system& files;
  std::string folder;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  // The ranks of a node check the bytes of the replicated state together, each other files.
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 1;
  claimant who;
  byte_broadcast broadcast;  // none: each rank reads all that it needs
  history_options history;
  message_handler on_message;
  vault_tier* vault = nullptr;  // none: only the folder counts
  bool takes_own = true;        // false: what is each rank's own is not that of this rank
};

struct agreement {
  std::uint64_t generation = 0;
  std::optional<resumed_snapshot> from;
  std::optional<snapshot_history> history;  // only on rank 0
};

// All ranks must call it.
std::variant<agreement, failure> agree_on_snapshot(const resuming& here, rank_exchange& ranks);

}  // namespace ddprun::worker
