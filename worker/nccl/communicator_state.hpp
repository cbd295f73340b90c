// The state of a communicator, and the one way in which its calls make progress, wait and fail. It
// is not for users, as it includes NCCL's header.
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

  // Polls while NCCL's `code` is "in progress". At the deadline it fails with the text of `late`,
  // which may name the missing ranks.
  void settle(ncclResult_t code, const std::string& what, const deadline& until,
              const std::function<std::string()>& late);
  // Counts a collective, names it in errors, and settles it unless it is part of a group.
  void enqueue(const std::string& what, const std::function<ncclResult_t()>& call);

  // Aborts, and throws nccl_error.
  [[noreturn]] void fail(const std::string& what, const std::string& why);
  [[noreturn]] void fail(const std::string& what, ncclResult_t code);
  // Rejects a wrong argument before anything is enqueued; the communicator stays usable.
  [[noreturn]] void refuse(const std::string& what, const std::string& why) const;

  void need_open(const std::string& what) const;
  // NCCL's groups belong to the thread, so nothing that waits may be called within one.
  void need_no_group(const std::string& what) const;
  int need_rank(const std::string& what, std::uint32_t other) const;
  void abort() noexcept;
  // After a deadline: names the ranks that have not made the same calls. "" if that is unknown.
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
  std::string place;                  // prefix of its keys in the job store: "ddprun/nccl/3/world"
  std::optional<store_client> store;  // none if the launcher serves none
  std::uint64_t calls = 0;            // collectives enqueued so far
  std::uint32_t splits = 0;
  std::string newest_call;
  bool is_in_group = false;
  bool is_to_abort = false;  // abort when the group ends
};

// The communicator whose group this thread has begun, or null.
extern thread_local const void* group_of_thread;

// The pause between two polls. It starts short, since most operations complete at once.
class look_again {
 public:
  void operator()();

 private:
  duration pause_ = std::chrono::microseconds(1);
};

}  // namespace ddprun::worker
