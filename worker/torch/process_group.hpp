// A process group is the ranks of a round, joined: collectives over LibTorch's own
// ProcessGroupGloo, found through LibTorch's own TCPStore at MASTER_ADDR:MASTER_PORT. Tensors on
// GPUs go over NCCL, where the program links worker/torch_cuda and says so (nccl_backend.hpp).
//
// It speaks what torch.distributed.init_process_group("gloo") speaks, but under keys of its own: a
// C++ rank and a Python rank do not meet in one group.
//
// The network interface is GLOO_SOCKET_IFNAME (one name, or several with commas) where that is
// set, else the one that leads to MASTER_ADDR; host names are never looked up for it. Ranks are
// connected when they first talk to each other; TORCH_GLOO_LAZY_INIT=0 connects all with all at
// the start, a socket a rank. A group whose tensors are all on GPUs can do without Gloo: what its
// ranks have to say besides goes over the job store then, in a tree, and takes one socket for it.
//
// Thread rule: one thread, and all ranks call the same collectives in the same order.
// Ownership: tensors handed in are written in place; on return the result is there. On a GPU it is
// there for what comes later on the current stream, and a deadline that passes is no error here:
// NCCL's watchdog in LibTorch ends the process, with a text of its own.
// Errors: `process_group_error`, whose text names rank, store address, and what failed; where a
// deadline has passed, also the ranks that have not come. After one the group is of no more use:
// let main print it and end the process, so that the launcher starts the next round; or let
// survive() (survive.hpp) have it.
#pragma once

#include "worker/environment.hpp"
#include "worker/process_group_error.hpp"
#include "worker/round_parts.hpp"
#include "worker/store_tree.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::worker {

struct process_group_options;

// Gives a group a further backend, for tensors of another kind of device.
using backend_maker =
    std::function<void(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                       const process_group_options& options)>;

struct process_group_options {
  // For the store to answer and all ranks to arrive.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  // For one collective: how far ranks may be apart. A dead rank is noticed at once, by its sockets.
  // None: as PyTorch has it, 30 minutes for tensors on the CPU and 10 for NCCL.
  std::optional<std::chrono::milliseconds> collective_timeout;
  std::vector<backend_maker> backends;  // besides Gloo
  // For tensors on the CPU. False: there can be none, and any(), ask(), sum(), broadcast_bytes(),
  // barrier() and close() go over the job store. It costs each rank three requests to the store,
  // and no call returns before the last rank's have been answered (store_tree.hpp). A rank that
  // dies is noticed at the deadline, or when another one lets go.
  bool gloo = true;
};

class process_group {
 public:
  process_group(process_group&&) = default;
  process_group& operator=(process_group&&) = default;

  // Waits for all ranks. Rank 0 serves the store itself where the launcher does not. SIGPIPE is
  // ignored from here on, as in Python, unless the program has a handler: a dead peer is an error.
  static process_group join(const environment& environment, process_group_options options = {});
  // The same, for the launcher's variables.
  static process_group init(process_group_options options = {});

  // Some of this group's ranks, at least one, each once, as a group of their own, in which they are
  // numbered in this order. Called by all ranks, with the same list; who is not on it gets none.
  std::optional<process_group> subgroup(const std::vector<std::uint32_t>& ranks);

  const environment& here() const { return environment_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t world_size() const { return world_size_; }

  // The sum over all ranks, on all ranks, in place.
  void all_reduce_sum(at::Tensor& tensor);
  // The tensor of `root`, on all ranks, in place: same shape and type everywhere.
  void broadcast(at::Tensor& tensor, std::uint32_t root);
  // The same of a few numbers that are no tensor, to the bit the same on all ranks.
  void sum(std::span<double> numbers);
  // The bytes of `root`, on all ranks; what the others hand in is not used.
  std::string broadcast_bytes(std::string bytes, std::uint32_t root);
  // True on all ranks if one says so: for decisions that all must take at the same step. It goes
  // over the CPU's network and takes log2(world size) hops, one behind the other: 10 at 1,000
  // ranks, half a millisecond where a hop takes 50 us. Where a step takes not much longer, ask at
  // every tenth.
  bool any(bool here);
  // The same of several yes and no, without waiting: what the ranks say is put together while they
  // go on, and answer() is true for each that one of them has said. It takes 2 (world size - 1)
  // hops in the background, which cost a training step nothing as long as it lasts longer than
  // they do. Called by all ranks; one question at a time.
  // Without Gloo it is the store that has to keep up: 3 requests a rank and question.
  using flags = std::array<bool, 4>;
  void ask(const flags& here);
  flags answer();
  void barrier();
  // Called by all ranks: waits until this rank's GPU has done its work and none needs another any
  // more, shuts NCCL down, and lets go, of the subgroups that are not closed too. A program that
  // just ends may take what another still wants to read with it; NCCL is aborted then, which
  // LibTorch warns of.
  void close();

  // After an error, by a rank that does not end at once: those that wait for it hear at once that
  // it does not come, as they would at its end, and the group and its subgroups can do no more.
  void let_go();

  // Ranks whose deadline passes are told apart by how many calls each has made. Between these two,
  // ranks make different ones, and nobody is named; both are called by all ranks.
  void begin_uneven_calls() { is_uneven_ = true; }
  void end_uneven_calls();

  // Runs `work`, and turns what LibTorch throws into a process_group_error that says `what`.
  void guarded(const char* what, const std::function<void()>& work) const;
  // The same for work in which the program's own code runs too: what is not of the collectives
  // comes as it was thrown.
  void guarded_with_own(const char* what, const std::function<void()>& work) const;

  // Whether it has collectives for tensors on the CPU.
  bool has_gloo() const { return options_.gloo; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const { return group_->native; }

 private:
  // LibTorch's group, and that it is shut down: by its own close(), or by that of the whole.
  struct open_group final : round_part {
    c10::intrusive_ptr<c10d::ProcessGroup> native;
    std::shared_ptr<store_tree> words;  // without Gloo
    std::vector<std::weak_ptr<open_group>> parts;
    bool is_closed = false;

    void shut_down();
    void end_waits() override;
    void let_go(const std::string& why);
  };

  process_group(const environment& environment, process_group_options options)
      : environment_(environment),
        options_(std::move(options)),
        rank_(environment.rank),
        world_size_(environment.world_size) {}

  void run(const char* what, bool has_own_errors, const std::function<void()>& work) const;
  // Until all that was given to the GPU is done.
  void wait_for_devices() const;
  // Meets the others of `name` with this rank and world size.
  void connect(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name);
  std::string join_words(std::string own, const store_tree::joiner& with);
  std::string who() const;
  std::string who_is_missing() const;

  environment environment_;
  process_group_options options_;
  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::string name_;
  mutable std::uint64_t calls_ = 0;
  bool is_uneven_ = false;
  std::uint32_t parts_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<open_group> group_;
  c10::intrusive_ptr<c10d::Work> asking_;
  at::Tensor asked_;
  std::shared_future<std::string> asking_words_;  // the same without Gloo
};

}  // namespace ddprun::worker
