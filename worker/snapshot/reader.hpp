// Reads the newest snapshot of a folder for a program that does not resume from it, such as an
// evaluation or an export. It claims and writes nothing, so it can run beside the training job, in
// any number of independent processes, and in a read-only folder.
//
//   std::string problem;
//   const auto found = read_newest_snapshot("snapshots", problem);
//   if (!found) ...                              // problem: one line for a person
//   if (*found) ... (*found)->replicated.tensors // otherwise there is none yet
//
// Damaged snapshots are skipped, with a message; those that a job has failed after are not. The
// tensors' bytes are mapped. The training job removes a snapshot when there are `keep` newer ones;
// on NFS, accessing bytes that were not read before that ends the process (SIGBUS). Copy what is
// needed for longer.
//
// Thread rule: any thread. Errors: the kernel's, or an errc: version_mismatch, or damaged if none
// of the existing snapshots can be read.
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

// Returns the replicated state and the sharded tensors, but nothing else of a rank's own state.
// None if there is no snapshot yet. Every byte is read and checked.
result<std::optional<resumed_snapshot>> read_newest_snapshot(const std::string& folder,
                                                             std::string& problem,
                                                             const reader_options& options = {});

}  // namespace ddprun::worker
