// A communicator joins the ranks of a round by NCCL. Its collectives work on memory of the ranks'
// GPUs, in the order of a CUDA stream. It does not need LibTorch, and this header includes neither
// NCCL's nor CUDA's.
//
//   const auto here = read_environment();
//   auto all = communicator::join(here);
//   all.all_reduce(gradients, gradients, reduction::average, stream);  // a std::span<float>
//   all.wait(stream, 30s);
//
// The ids are those that the launcher has created (ddprun --nccl-ids). If there are none, under
// torchrun for instance, rank 0 creates one and the others read it from the job store. Every
// communicator is non-blocking: a call that makes no progress ends at its deadline and names the
// missing ranks.
//
// Thread rule: one thread at a time; all ranks make the same calls in the same order.
// Ownership: memory and streams belong to the caller, are on this communicator's device, and must
// live until the stream has completed. The destructor aborts a communicator that was not closed; it
// never waits for other ranks.
// Errors: nccl_error, one line with the rank, NCCL's version, the call and the reason. The
// communicator has then been aborted and cannot be used again: main should print the error and end
// the process, so that the launcher starts the next round. Wrong ids or variables throw
// environment_error.
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
  // The time in which all ranks must come and be connected.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);
  // The time for a call that enqueues: the first of its kind connects the ranks that it needs.
  std::chrono::milliseconds call_timeout = std::chrono::minutes(5);
  // CUDA's number of the GPU. By default LOCAL_RANK's, or the only visible one.
  std::optional<int> device;
  // The launcher's ids are for the communicator without a name. Each further one needs a name of
  // its own, the same on all ranks; rank 0 creates its id, which requires the job store.
  std::string name;
};

class communicator {
  template <typename T>  // T is deduced from the other argument
  using same = std::span<std::type_identity_t<T>>;

 public:
  // Waits for all ranks of the round. Makes its device the current one of this thread.
  static communicator join(const environment& here, const communicator_options& options = {});
  communicator(communicator&& other) noexcept;
  communicator& operator=(communicator&& other) noexcept;
  ~communicator();

  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  int device() const;
  std::uint32_t version() const;  // the loaded NCCL's: 23007 is 2.30.7

  // The collectives are enqueued on `stream`. Counts are numbers of elements, and equal on all
  // ranks. `from` and `to` may be the same memory.

  template <reducible T>
  void all_reduce(same<const T> from, std::span<T> to, reduction how, cuda_stream stream) {
    all_reduce(bytes(from), bytes(to), element_of<T>(), how, stream);
  }
  // Copies the data of `root` to all ranks, in place.
  template <reducible T>
  void broadcast(std::span<T> data, std::uint32_t root, cuda_stream stream) {
    broadcast(bytes(data), element_of<T>(), root, stream);
  }
  // `to` has room for world_size() times `from`, and receives them in the order of the ranks.
  template <reducible T>
  void all_gather(same<const T> from, std::span<T> to, cuda_stream stream) {
    all_gather(bytes(from), bytes(to), element_of<T>(), stream);
  }
  // `from` holds world_size() times `to`; each rank receives its part of the result.
  template <reducible T>
  void reduce_scatter(same<const T> from, std::span<T> to, reduction how, cuda_stream stream) {
    reduce_scatter(bytes(from), bytes(to), element_of<T>(), how, stream);
  }
  // A send matches a receive on the other rank. Those that depend on each other go into grouped().
  template <reducible T>
  void send(std::span<T> from, std::uint32_t to_rank, cuda_stream stream) {
    send(bytes(from), element_of<T>(), to_rank, stream);
  }
  template <reducible T>
  void receive(std::span<T> to, std::uint32_t from_rank, cuda_stream stream) {
    receive(bytes(to), element_of<T>(), from_rank, stream);
  }
  // Enqueues everything in `calls` at once: the sends and receives of one step, or many small
  // reductions. `calls` may use only this communicator, and nothing in it may wait. An error in it
  // aborts.
  void grouped(const std::function<void()>& calls);

  // Waits until the stream has completed. Aborts at the deadline, or on an error of NCCL's own
  // threads; the text names the ranks that have not come to the same wait.
  void wait(cuda_stream stream, const deadline& until);
  // Throws the error, if any, that NCCL's threads have met since the last call.
  void check();

  // Creates a communicator of the ranks with the same `color`, ordered by `key` and then by rank.
  // All ranks must call it; a rank without a color gets none.
  std::optional<communicator> split(std::optional<std::uint32_t> color, std::uint32_t key = 0);
  // Leaves in order. All ranks must call it, after their streams have completed. Later calls fail.
  void close(const deadline& until);
  // Stops what this rank has enqueued. The other ranks get an error, or reach their deadline.
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
