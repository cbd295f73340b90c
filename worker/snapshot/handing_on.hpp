// Hands on to all ranks what one of them has read from the file system, so that each byte is read
// there once: first what a file says of its tensors, then their bytes, when a tensor is fetched. No
// rank has more of it in memory than the tensor that it fetches.
//
// Thread rule: one thread, and all ranks call the same functions in the same order.
// Errors: what the broadcast throws; errc::damaged, where what comes is no file's header.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::worker {

class handing_on {
 public:
  handing_on(byte_broadcast broadcast, std::uint32_t rank)
      : broadcast_(std::move(broadcast)), rank_(rank) {}

  // What all ranks have alike in a file that `reader` has mapped, which is none on the others. The
  // tensors have no bytes, but a copy function, to be called by all ranks in the same order.
  result<snapshot_part> share(std::uint32_t reader, const std::shared_ptr<const mapped_file>& file,
                              std::string& problem) const;

  // A file as a whole, in memory, for the one rank that wants it; none on the others.
  std::shared_ptr<const mapped_file> whole(std::uint32_t reader, std::uint32_t wanted_by,
                                           std::uint64_t bytes,
                                           const std::shared_ptr<const mapped_file>& file) const;

 private:
  std::string header(std::uint32_t reader, std::string_view file) const;

  byte_broadcast broadcast_;
  std::uint32_t rank_;
};

}  // namespace ddprun::worker
