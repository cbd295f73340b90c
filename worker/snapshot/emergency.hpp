// An emergency snapshot is made by the ranks that are left when others have died: where each holds
// all of what is replicated, the last finished step is not lost with a dead rank. They tell each
// other, through the job store, which step each has finished, in which epoch it goes on, and the
// checksums of its tensors and of its values; the greatest step counts, and of this the greatest
// epoch. All that are there must have the same, and the lowest of these ranks writes it, alone.
//
// It has what all ranks have alike, and nothing of what is each rank's own.
//
// On GPUs a step that a rank has finished may be wrong: when another rank aborts its collectives,
// their kernels send what they have, and end the step of a rank that still waited with it. So each
// rank says in which step it aborts, before it does (say_abort). No step counts that a rank has
// said, nor a later one:
//
//   a rank that was in step 8 says "8" and aborts    it has step 7, and may write that
//   one that finds its step 8 finished after that    it cannot go back, and writes nothing
//   one that has finished step 8 before that         the same: it cannot be told apart, unless all
//                                                    was settled before the word came
//
// Whoever settles what counts reads these words after what the ranks have finished, so it knows of
// each abort that may have ended one of those steps. It waits longer for a rank that has said in
// which step it aborts, and nothing else yet, if no other rank can write. If none can in the end,
// nothing is saved.
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
  // When the launcher kills this rank unless it is writing by then; empty, or none: it is not
  // known. A checksum that would take longer is given up.
  std::function<std::optional<time_point>()> killed_at;
};

// Called by a rank before it aborts its collectives on a GPU: says that it does so in that step.
// `store` is the one of save_emergency(), with a connection of its own where threads differ.
error_code say_abort(store_client& store, std::uint32_t rank, std::uint64_t step,
                     const deadline& until);

// Called by each rank that is left, which has until then. None: the snapshot is there.
std::optional<failure> save_emergency(const emergency& here, store_client& store,
                                      const deadline& until);

}  // namespace ddprun::worker
