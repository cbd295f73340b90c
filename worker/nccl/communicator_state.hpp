// What a communicator holds, and the one way in which its calls go on, wait and fail. Not for
// users: this header includes NCCL's.
#pragma once

#include "worker/nccl/communicator.hpp"
#include "worker/store_client.hpp"

#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <memory>
#include <nccl.h>
#include <optional>
#include <string>

namespace ddprun::worker {

struct communicator::state {
  state(communicator_options limits, std::uint32_t own_rank, std::uint32_t ranks);
  ~state() { abort(); }
  state(const state&) = delete;
  state& operator=(const state&) = delete;

  // Goes on polling while NCCL says that `code` is in progress. What `late` adds to the deadline's
  // text may name who is missing.
  void settle(ncclResult_t code, const std::string& what, const deadline& until,
              const std::function<std::string()>& late);
  // One collective: counted, named in errors, and settled unless it is one of a group.
  void enqueue(const std::string& what, const std::function<ncclResult_t()>& call);

  // Aborts, and throws nccl_error.
  [[noreturn]] void fail(const std::string& what, const std::string& why);
  [[noreturn]] void fail(const std::string& what, ncclResult_t code);
  // A wrong argument: thrown before anything is enqueued, the communicator stays.
  [[noreturn]] void refuse(const std::string& what, const std::string& why) const;

  void need_open(const std::string& what) const;
  // NCCL's groups are the thread's: what waits has to wait for their end.
  void need_no_group(const std::string& what) const;
  int need_rank(const std::string& what, std::uint32_t other) const;
  void abort() noexcept;
  // After a deadline: who has not made the same calls. "" where that cannot be told.
  std::string who_is_missing();

  std::string reason_of(ncclResult_t code) const;
  std::string who() const;     // "rank 3 of 4, NCCL 2.30.7, GPU 3"
  std::string newest() const;  // "all_reduce of 1024 float32 (call 17)"

  communicator_options options;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t version = 0;
  int device = -1;
  ncclComm_t comm = nullptr;
  std::string place;                  // its keys in the job store: "ddprun/nccl/3/world"
  std::optional<store_client> store;  // none: the launcher serves none
  std::uint64_t calls = 0;            // that were enqueued
  std::uint32_t splits = 0;
  std::string newest_call;
  bool is_in_group = false;
  bool is_to_abort = false;  // once its group has ended
};

// The communicator whose group this thread has begun; null: none.
extern thread_local const void* group_of_thread;

// Between two looks at what goes on by itself: short at first, for most is done at once.
class look_again {
 public:
  void operator()();

 private:
  duration pause_ = std::chrono::microseconds(1);
};

}  // namespace ddprun::worker
