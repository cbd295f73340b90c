// LibTorch's ProcessGroupGloo, set up for a process group: it uses the interface that leads to the
// store, and connects two ranks when they first communicate.
//
// Thread rule: as for process_group. Errors: LibTorch's exceptions.
#pragma once

#include "worker/environment.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace ddprun::worker {

// The first line of an error text of LibTorch or Gloo, reduced to what happened.
std::string first_line(const std::string& text);

// Waits for all ranks with `join_timeout`; `collective_timeout` then applies to collectives.
c10::intrusive_ptr<c10d::Backend> join_by_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int world_size, const environment& here,
                                               std::chrono::milliseconds join_timeout,
                                               std::chrono::milliseconds collective_timeout);

// Closes this rank's connections, which ends the waits on them here and on other ranks. The group
// must have joined by Gloo; it must not be used again.
void let_go_of_gloo(c10d::ProcessGroup& group);

}  // namespace ddprun::worker
