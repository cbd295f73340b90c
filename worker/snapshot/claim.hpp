// A claim on a snapshot folder draws a *generation*, a number greater than every one before in that
// folder, and leaves a file with it. Snapshots are ordered by (generation, step): so a worker of an
// old round that comes back late (it was frozen, or cut off and not yet fenced) may write what it
// likes, its snapshots never win over those of a newer round, and it is refused at the latest with
// its next save. Generations rather than rounds, because rounds begin at 1 again when the same
// command is started tomorrow, and because torchrun has none.
//
// Errors: the kernel's or an errc (refused: a newer round has the folder); the sentence with path
// and reason goes to `on_message`.
#pragma once

#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <string>

namespace ddprun::worker {

struct claimant {
  std::uint64_t instance = 0;  // 0: of a launcher that has no such notion
  std::uint64_t round = 1;
  std::uint32_t restart_count = 0;
};

// Makes the folder when it is not there, and claims it. Refused when a newer round of the same
// instance has it. Claims of those before are removed.
result<std::uint64_t> claim_folder(file_system& files, const std::string& folder,
                                   const claimant& who, const message_handler& on_message);

// Refused when somebody has claimed the folder after `generation`.
error_code check_claim(file_system& files, const std::string& folder, std::uint64_t generation,
                       const message_handler& on_message);

// Removed by its writer while we looked; on NFS that has a name of its own.
bool has_vanished(const error_code& error);

}  // namespace ddprun::worker
