// A communicator is the ranks of a round, joined by NCCL: collectives on memory of their GPUs, in
// the order of a CUDA stream. No LibTorch, and no header of NCCL or CUDA in this one.
//
//   const auto here = read_environment();
//   auto all = communicator::join(here);
//   all.all_reduce(gradients, gradients, reduction::average, stream);  // a std::span<float>
//   all.wait(stream, 30s);
//
// The ids are those that the launcher has made (ddprun --nccl-ids); where it has made none, under
// torchrun too, rank 0 makes one and the others find it in the job store. Every communicator is
// non-blocking: a call that cannot go on ends with its deadline, and says which ranks are missing.
//
// Thread rule: one thread at a time; all ranks make the same calls in the same order.
// Ownership: memory and streams are the caller's, on this communicator's device, and stay until
// the stream is through. The destructor aborts what has not been closed: it never waits for others.
// Errors: nccl_error, one line: rank, NCCL's version, the call, the reason. The communicator has
// been aborted then, and is of no more use: let main print it and end the process, so that the
// launcher starts the next round. Ids or variables that are wrong throw environment_error.
#pragma once

#include "worker/deadline.hpp"
#include "worker/environment.hpp"
#include "worker/nccl/element.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

struct CUstream_st;
struct ncclComm;

namespace ddprun::worker {

using cuda_stream = CUstream_st*;  // cudaStream_t

class nccl_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class reduction { sum, product, max, min, average };

struct communicator_options {
  // For all ranks to come and to be connected.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  // For a call that enqueues: the first of a kind connects the ranks it needs.
  std::chrono::milliseconds call_timeout = std::chrono::minutes(5);
  // CUDA's number of the GPU; none: LOCAL_RANK, or the only one that is visible.
  std::optional<int> device;
  // The launcher's ids are for the one without a name. Each further one has its own, the same on
  // all ranks; its id is made by rank 0, and needs the job store.
  std::string name;
};

class communicator {
  template <typename T>  // T itself is told by the other argument
  using same = std::span<std::type_identity_t<T>>;

 public:
  // Waits for all ranks of the round. Its device is the current one of this thread from here on.
  static communicator join(const environment& here, const communicator_options& options = {});
  communicator(communicator&& other) noexcept;
  communicator& operator=(communicator&& other) noexcept;
  ~communicator();

  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  int device() const;
  std::uint32_t version() const;  // of the NCCL that is loaded: 23007 is 2.30.7

  // Enqueued on `stream`.
  // Counts are of elements, and equal on all ranks. `from` and `to` may be the same memory.

  template <reducible T>
  void all_reduce(same<const T> from, std::span<T> to, reduction how, cuda_stream stream) {
    all_reduce(bytes(from), bytes(to), element_of<T>(), how, stream);
  }
  // That of `root`, on all ranks, in place.
  template <reducible T>
  void broadcast(std::span<T> data, std::uint32_t root, cuda_stream stream) {
    broadcast(bytes(data), element_of<T>(), root, stream);
  }
  // `to` has room for world_size() times `from`, and holds them in the order of the ranks.
  template <reducible T>
  void all_gather(same<const T> from, std::span<T> to, cuda_stream stream) {
    all_gather(bytes(from), bytes(to), element_of<T>(), stream);
  }
  // `from` holds world_size() times `to`; each rank gets its part of the whole.
  template <reducible T>
  void reduce_scatter(same<const T> from, std::span<T> to, reduction how, cuda_stream stream) {
    reduce_scatter(bytes(from), bytes(to), element_of<T>(), how, stream);
  }
  // A send meets the receive of the other rank. Several that depend on each other go in grouped().
  template <reducible T>
  void send(std::span<T> from, std::uint32_t to_rank, cuda_stream stream) {
    send(bytes(from), element_of<T>(), to_rank, stream);
  }
  template <reducible T>
  void receive(std::span<T> to, std::uint32_t from_rank, cuda_stream stream) {
    receive(bytes(to), element_of<T>(), from_rank, stream);
  }
  // All that `calls` enqueues goes as one: sends and receives of one step, or many small
  // reductions.
  // Only this communicator's, and none that waits. An error in it aborts.
  void grouped(const std::function<void()>& calls);

  // Waiting.
  // Until the stream is through. At the deadline, or on an error of NCCL's own threads, it aborts:
  // the text names the ranks that have not come to the same wait.
  void wait(cuda_stream stream, const deadline& until);
  // Throws what NCCL's threads have found wrong since.
  void check();

  // Others, and the end.
  // The ranks of one `color`, as a communicator of their own, ordered by `key` and then by rank.
  // Called by all; a rank without a color gets none.
  std::optional<communicator> split(std::optional<std::uint32_t> color, std::uint32_t key = 0);
  // Called by all, when the streams are through: leaves in order. What follows is an error.
  void close(const deadline& until);
  // Stops what is enqueued, on this rank; the others see an error, or their deadline.
  void abort() noexcept;

  ncclComm* native() const;  // nullptr once closed or aborted

 private:
  struct state;
  struct memory {
    void* data;
    std::size_t count;
  };

  explicit communicator(std::unique_ptr<state> made);
  template <typename T>
  static memory bytes(std::span<T> values) {
    return {const_cast<void*>(static_cast<const void*>(values.data())), values.size()};
  }
  void all_reduce(memory from, memory to, element kind, reduction how, cuda_stream stream);
  void broadcast(memory data, element kind, std::uint32_t root, cuda_stream stream);
  void all_gather(memory from, memory to, element kind, cuda_stream stream);
  void reduce_scatter(memory from, memory to, element kind, reduction how, cuda_stream stream);
  void send(memory from, element kind, std::uint32_t to_rank, cuda_stream stream);
  void receive(memory to, element kind, std::uint32_t from_rank, cuda_stream stream);

  std::unique_ptr<state> state_;
};

}  // namespace ddprun::worker
