// All ranks of a round agree on what they go on from: rank 0 claims the folder and says which
// snapshot, each rank reads its part, and what one of them finds damaged none of them takes.
//
// A rank says that it has its part when nothing is left that could fail for it alone: its files are
// read, those with pieces that it may want are open, and what others have read for it has come. A
// job that goes on from the snapshot is noted (snapshot_history::mark_resumed) when all have.
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

struct resuming {
  file_system& files;
  std::string folder;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  // The ranks of a node look at each byte of what all ranks have alike, every one at other files.
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 1;
  claimant who;
  byte_broadcast broadcast;  // none: each rank reads all that it needs
  history_options history;
  message_handler on_message;
};

struct agreement {
  std::uint64_t generation = 0;
  std::optional<resumed_snapshot> from;
  std::optional<snapshot_history> history;  // rank 0's
};

// Called by all ranks.
std::variant<agreement, failure> agree_on_snapshot(const resuming& here, rank_exchange& ranks);

}  // namespace ddprun::worker
