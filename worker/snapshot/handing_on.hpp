// Distributes to all ranks what one of them has read from the file system, so that each byte is
// read there only once: first a file's header, then the bytes of a tensor when it is fetched. No
// rank holds more of the file in memory than the tensor that it fetches.
//
// Thread rule: one thread, and all ranks call the same functions in the same order. Errors: what
// the broadcast throws; errc::damaged if the received bytes are not a file's header.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::worker {

// What another rank has read.
struct file_in_memory final : mapped_file {
  std::string content;
  std::string_view bytes() const override { return content; }
};

// Brings so many bytes from the reader to all ranks, some at a time. `from`: what the reader takes
// them from, if they do not lie at its `to`; empty on other ranks.
void hand_on(const byte_broadcast& broadcast, std::uint32_t reader, std::string_view from, char* to,
             std::uint64_t bytes);

class handing_on {
 public:
  handing_on(byte_broadcast broadcast, std::uint32_t rank)
      : broadcast_(std::move(broadcast)), rank_(rank) {}

  // The replicated part of a file that `reader` has mapped; `file` is empty on other ranks. The
  // tensors have no bytes, but a copy function, which all ranks must call in the same order.
  result<snapshot_part> share(std::uint32_t reader, const std::shared_ptr<const mapped_file>& file,
                              std::string& problem) const;

  // Sends a whole file to the memory of one rank, `wanted_by`. Empty on the other ranks.
  std::shared_ptr<const mapped_file> whole(std::uint32_t reader, std::uint32_t wanted_by,
                                           std::uint64_t bytes,
                                           const std::shared_ptr<const mapped_file>& file) const;

 private:
  std::string header(std::uint32_t reader, std::string_view file) const;

  byte_broadcast broadcast_;
  std::uint32_t rank_;
};

}  // namespace ddprun::worker
