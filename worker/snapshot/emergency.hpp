// An emergency snapshot is made by the ranks that are left when others have died: where each holds
// all of what is replicated, the last finished step is not lost with a dead rank. They tell each
// other, through the job store, which step each has finished, in which epoch it goes on, and the
// checksums of its tensors and of its values; the greatest step counts, and of this the greatest
// epoch. All that are there must have the same, and the lowest of these ranks writes it, alone.
//
// It has what all ranks have alike, and nothing of what is each rank's own.
#pragma once

#include "worker/deadline.hpp"
#include "worker/snapshot/history.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/store_client.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

struct emergency {
  file_system& files;
  std::string folder;
  claimant who;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  message_handler on_message;
  snapshot_info info;  // of the step that this rank has finished last
  const snapshot_part& replicated;
  // Whether the survivors must have this tensor, or value, alike; empty: each.
  std::function<bool(std::string_view name)> is_compared;
};

// Called by each rank that is left, which has until then. None: the snapshot is there.
std::optional<failure> save_emergency(const emergency& here, store_client& store,
                                      const deadline& until);

}  // namespace ddprun::worker
