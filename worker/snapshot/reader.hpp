// Reads the newest snapshot of a folder for a program that does not go on from it: an evaluation,
// an export. It claims nothing and writes nothing, so that it may run beside the job that trains,
// by any number of processes that know nothing of each other, and in a folder that is read-only.
//
//   std::string problem;
//   const auto found = read_newest_snapshot("snapshots", problem);
//   if (!found) ...                              // problem: one line for a person
//   if (*found) ... (*found)->replicated.tensors // else there is none yet
//
// Damaged snapshots are skipped, with a message. One that a job has failed after is none the worse
// for it here. The tensors' bytes are mapped: the job that trains removes a snapshot once `keep`
// newer ones are there, after which, on NFS, looking at bytes that were not read yet ends the
// process (SIGBUS). Copy what is wanted for longer.
//
// Thread rule: any thread. Errors: of the kernel, or an errc: version_mismatch, damaged (none of
// those that are there can be read).
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <optional>
#include <string>

namespace ddprun::worker {

struct reader_options {
  message_handler on_message = write_to_stderr;
  file_system* files = &posix_file_system();
};

// All of it that ranks have alike, and the tensors of which each has a piece; nothing else of what
// is a rank's own. Each byte is read, and checked.
result<std::optional<resumed_snapshot>> read_newest_snapshot(const std::string& folder,
                                                             std::string& problem,
                                                             const reader_options& options = {});

}  // namespace ddprun::worker
