// LibTorch's ProcessGroupGloo, as a process group has it: over the interface that leads to the
// store, with connections made when ranks first talk to each other.
//
// Thread rule: as process_group. Errors: what LibTorch throws.
#pragma once

#include "worker/environment.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace ddprun::worker {

// What happened, of a text of LibTorch's or Gloo's, in one line.
std::string first_line(const std::string& text);

// Waits for all ranks with the one timeout; the other one is for their work.
c10::intrusive_ptr<c10d::Backend> join_by_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int world_size, const environment& here,
                                               std::chrono::milliseconds join_timeout,
                                               std::chrono::milliseconds collective_timeout);

// Ends this rank's connections, and what waits for them here and elsewhere. Of a group that has
// joined by Gloo; it is of no use any more.
void let_go_of_gloo(c10d::ProcessGroup& group);

}  // namespace ddprun::worker
