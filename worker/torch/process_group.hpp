// A process group joins the ranks of a round. Its collectives use LibTorch's own ProcessGroupGloo,
// and the ranks find each other through LibTorch's own TCPStore at MASTER_ADDR:MASTER_PORT. Tensors
// on GPUs use NCCL if the program links worker/torch_cuda and asks for it (nccl_backend.hpp).
//
// It speaks the protocol of torch.distributed.init_process_group("gloo"), but under keys of its
// own: C++ ranks and Python ranks cannot join the same group.
//
// The network interface is GLOO_SOCKET_IFNAME (one name, or several separated by commas) if set,
// otherwise the one that leads to MASTER_ADDR; host names are never resolved for it. Two ranks are
// connected when they first communicate; TORCH_GLOO_LAZY_INIT=0 connects all pairs at the start,
// one socket for each rank. A group whose tensors are all on GPUs can do without Gloo: its other
// messages then use the job store, in a tree, over a single socket.
//
// Thread rule: one thread, and all ranks call the same collectives in the same order.
// Ownership: tensors are written in place, and hold the result on return. On a GPU the result is
// there for later work on the current stream. A rank that is lost, or a deadline that passes, on a
// GPU is not an error here: NCCL's watchdog in LibTorch ends the process, with its own text, unless
// `watchdog` is off.
// Errors: `process_group_error`, whose text names rank, store address, what failed, and after a
// timeout the ranks that have not come. The group must not be used again: main should print the
// error and end the process, so that the launcher starts the next round, or survive() (survive.hpp)
// should handle it.
#pragma once

#include "worker/environment.hpp"
#include "worker/process_group_error.hpp"
#include "worker/round_parts.hpp"
#include "worker/store_tree.hpp"

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <array>
#include <atomic>
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

// Gives a group a further backend, for tensors on another kind of device.
using backend_maker =
    std::function<void(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
                       const process_group_options& options)>;

struct process_group_options {
  // The time in which the store must answer and all ranks must arrive.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  // The time limit of one collective, that is, how far apart the ranks may be. A dead rank is
  // noticed at once, because its sockets close. None: PyTorch's, 30 minutes for tensors on the CPU
  // and 10 for NCCL.
  std::optional<std::chrono::milliseconds> collective_timeout;
  std::vector<backend_maker> backends;  // in addition to Gloo
  // LibTorch's watchdog ends the process when NCCL has lost a rank, or when a collective on a GPU
  // takes longer than its time limit. If false, the process lives on, and it is the program's task
  // to find out: a training loop does, and can then save an emergency snapshot (training_loop.hpp).
  // Other waits for a GPU may be endless; ddprun ends them with the round. It counts for all groups
  // of the process; set it for the first one. False has not been tried on a GPU yet.
  bool watchdog = true;
  // Supports tensors on the CPU. If false, only tensors on GPUs are supported, and any(), ask(),
  // sum(), broadcast_bytes(), barrier() and close() use the job store. Each such call costs a rank
  // three requests to the store, and returns only after the last rank's were answered
  // (store_tree.hpp). A dead rank is then noticed at the deadline, or when another rank calls
  // let_go().
  bool gloo = true;
};

class process_group {
 public:
  process_group(process_group&&) = default;
  process_group& operator=(process_group&&) = default;

  // Waits for all ranks. Rank 0 serves the store if the launcher does not. From here on SIGPIPE is
  // ignored, as in Python, unless the program has a handler, so that a dead peer is an error.
  static process_group join(const environment& environment, process_group_options options = {});
  // Joins with the launcher's variables.
  static process_group init(process_group_options options = {});

  // Makes a group of some of this group's ranks: at least one, each once, numbered in this order.
  // All ranks must call it with the same list; those that are not on it get none.
  std::optional<process_group> subgroup(const std::vector<std::uint32_t>& ranks);

  const environment& here() const { return environment_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t world_size() const { return world_size_; }

  // Sums the tensors of all ranks, in place, on all ranks.
  void all_reduce_sum(at::Tensor& tensor);
  // Copies the tensor of `root` to all ranks, in place. Shape and type must be the same everywhere.
  void broadcast(at::Tensor& tensor, std::uint32_t root);
  // Sums a few plain numbers over all ranks. The result is the same on all ranks to the bit.
  void sum(std::span<double> numbers);
  // Returns the bytes of `root` on all ranks; the arguments of the others are ignored.
  std::string broadcast_bytes(std::string bytes, std::uint32_t root);
  // True on all ranks if it is true on one: for decisions that all ranks must take at the same
  // step. It uses the CPU's network and takes log2(world size) sequential hops: 10 at 1,000 ranks,
  // that is half a millisecond at 50 us for a hop. If a step does not take much longer, call it
  // every tenth step.
  bool any(bool here);
  // The same for several flags, without waiting: ask() combines what the ranks say in the
  // background, and answer() returns true for each flag that any rank has set. It takes 2 (world
  // size - 1) hops, which cost a training step nothing as long as it takes longer than they do. All
  // ranks must call both; only one question may be open. Without Gloo the store must keep up with 3
  // requests for each rank and question.
  using flags = std::array<bool, 4>;
  void ask(const flags& here);
  flags answer();
  void barrier();
  // Waits until this rank's GPU has finished and no rank needs another any more, then shuts NCCL
  // down and closes the group and its open subgroups. All ranks must call it. A program that ends
  // without it may take away data that another rank still wants to read. Where there are GPUs, a
  // group that is destroyed without it is left as it is until the process ends: NCCL's abort would
  // send what a collective has so far to ranks that still wait in it.
  void close();

  // For a rank that has had an error and does not end at once: ranks that wait for it get an error
  // immediately, as if its process had ended. The group and its subgroups cannot be used again.
  void let_go();

  // The GPUs that collectives of this group use: one for NCCL, none for Gloo alone.
  std::vector<c10::Device> gpus() const;
  bool has_watchdog() const { return options_.watchdog; }
  // The time limit of a collective on a GPU.
  std::chrono::milliseconds gpu_timeout() const;
  // What NCCL has reported, of this group and its subgroups. Empty: nothing.
  std::string error_on_gpus() const;
  // Returns a function that says why the ranks' next common step on the GPU cannot end: NCCL
  // reports an error, the question that is open now has failed, or the agent has said that the
  // round is over. An empty text means that nothing says so. Any thread may call the function.
  std::function<std::string()> sign_of_loss() const;
  // Returns a function that aborts all collectives of this group and its subgroups on GPUs, except
  // of those that are shut down by then. Any thread may call it; it takes about a second, or hangs.
  // A rank on the same host that still waits in one of them may get wrong values from it.
  std::function<void()> abort_on_gpus() const;
  // Throws the error of a rank that was found to be lost in `what`.
  [[noreturn]] void throw_lost(const char* what, const std::string& why) const;

  // After a timeout, ranks are compared by the number of calls that each has made. Between these
  // two calls the ranks may make different calls, so no rank is named. All ranks must call both.
  void begin_uneven_calls() { is_uneven_ = true; }
  void end_uneven_calls();

  // Runs `work`, and converts LibTorch's exceptions into a process_group_error that names `what`.
  void guarded(const char* what, const std::function<void()>& work) const;
  // The same for work that also runs the program's own code: exceptions that do not come from a
  // collective are passed on unchanged.
  void guarded_with_own(const char* what, const std::function<void()>& work) const;

  // Whether it has collectives for tensors on the CPU.
  bool has_gloo() const { return options_.gloo; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const { return group_->native; }

 private:
  struct gpu_backend {
    c10::intrusive_ptr<c10d::Backend> native;
    std::shared_ptr<const std::atomic<bool>> is_shut_down;
  };
  // LibTorch's group, and whether it was closed, by its own close() or its parent's, or let go.
  struct open_group final : round_part {
    c10::intrusive_ptr<c10d::ProcessGroup> native;
    std::shared_ptr<store_tree> words;  // only without Gloo
    std::vector<std::weak_ptr<open_group>> parts;
    bool is_closed = false;
    // Set before its shutdown begins. Other threads ask, also once the group is gone.
    std::shared_ptr<std::atomic<bool>> is_shut_down = std::make_shared<std::atomic<bool>>(false);

    open_group() = default;
    ~open_group() override;
    open_group(const open_group&) = delete;
    open_group& operator=(const open_group&) = delete;
    void shut_down();
    void end_waits() override;
    void let_go(const std::string& why);
    void add_backends_on_gpus(std::vector<gpu_backend>& to, bool with_closed) const;
  };

  process_group(const environment& environment, process_group_options options)
      : environment_(environment),
        options_(std::move(options)),
        rank_(environment.rank),
        world_size_(environment.world_size) {}

  void run(const char* what, bool has_own_errors, const std::function<void()>& work) const;
  // Waits until the GPU has finished all queued work.
  void wait_for_devices() const;
  // Joins the other ranks of `name`, with this rank and world size.
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
  std::shared_future<std::string> asking_words_;  // the open question, if there is no Gloo
};

}  // namespace ddprun::worker
