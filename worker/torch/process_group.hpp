// A process group is the ranks of a round, joined: collectives over LibTorch's own
// ProcessGroupGloo, found through LibTorch's own TCPStore at MASTER_ADDR:MASTER_PORT.
//
// It speaks what torch.distributed.init_process_group("gloo") speaks, but under keys of its own: a
// C++ rank and a Python rank do not meet in one group.
//
// The network interface is GLOO_SOCKET_IFNAME (one name, or several with commas) where that is
// set, else the one that leads to MASTER_ADDR; host names are never looked up for it.
//
// Thread rule: one thread, and all ranks call the same collectives in the same order.
// Ownership: tensors handed in are written in place; on return the result is there.
// Errors: `process_group_error`, whose text names rank, store address, and what failed. After one
// the group is of no more use: let main print it and end the process, so that the launcher starts
// the next round.
#pragma once

#include "worker/environment.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

namespace ddprun::worker {

class process_group_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct process_group_options {
  // For the store to answer and all ranks to arrive.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  // For one collective: how far ranks may be apart. A dead rank is noticed at once, by its sockets.
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(30);
};

class process_group {
 public:
  // Waits for all ranks. Rank 0 serves the store itself where the launcher does not. SIGPIPE is
  // ignored from here on, as in Python, unless the program has a handler: a dead peer is an error.
  static process_group join(const environment& environment, process_group_options options = {});

  std::uint32_t rank() const { return environment_.rank; }
  std::uint32_t world_size() const { return environment_.world_size; }

  // The sum over all ranks, on all ranks, in place.
  void all_reduce_sum(at::Tensor& tensor);
  // The tensor of `root`, on all ranks, in place: same shape and type everywhere.
  void broadcast(at::Tensor& tensor, std::uint32_t root);
  // The bytes of `root`, on all ranks; what the others hand in is not used.
  std::string broadcast_bytes(std::string bytes, std::uint32_t root);
  void barrier();

  // Runs `work`, and turns what LibTorch throws into a process_group_error that says `what`.
  void guarded(const char* what, const std::function<void()>& work) const;

  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const { return group_; }

 private:
  process_group(const environment& environment, c10::intrusive_ptr<c10d::ProcessGroup> group)
      : environment_(environment), group_(std::move(group)) {}

  environment environment_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace ddprun::worker
