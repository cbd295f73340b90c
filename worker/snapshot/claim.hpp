// A claim on a snapshot folder takes a *generation*, a number greater than all earlier ones in that
// folder, and creates a file for it. Snapshots are ordered by (generation, step). A late worker of
// an old round (it was frozen, or cut off and not yet fenced) may still write, but its snapshots
// never win over those of a newer round, and its next save is refused. Generations are used rather
// than rounds, because rounds start at 1 again if the same command is started tomorrow, and because
// torchrun does not number them.
//
// Thread rule: one thread. Errors: the kernel's, or an errc (refused: a newer round has claimed the
// folder). `on_message` gets the sentence with path and reason.
#pragma once

#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <string>

namespace ddprun::worker {

struct claimant {
  std::uint64_t instance = 0;  // 0: the launcher has no instances
  std::uint64_t round = 1;
  std::uint32_t restart_count = 0;
};

// Creates the folder if needed, and claims it. Refused if a newer round of the same instance has
// claimed it. Removes earlier claims. Returns the generation, which is greater than `elsewhere`,
// that of snapshots that are kept in another place.
result<std::uint64_t> claim_folder(file_system& files, const std::string& folder,
                                   const claimant& who, const message_handler& on_message,
                                   std::uint64_t elsewhere = 0);

// Refused if the folder was claimed after `generation`.
error_code check_claim(file_system& files, const std::string& folder, std::uint64_t generation,
                       const message_handler& on_message);

// True if a file was removed between listing and opening it, which NFS reports as ESTALE.
bool has_vanished(const error_code& error);

}  // namespace ddprun::worker
