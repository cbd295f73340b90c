// Copies a device's bytes to host memory through a few small buffers that the device can write to
// by itself (pinned memory): while one buffer is emptied, the device fills the next. The pinned
// memory is therefore bounded, however large the tensors are.
//
// One core cannot empty buffers as fast as a GPU fills them, so a copy of several chunks uses
// several lanes, each with a thread, buffers and a share of the bytes.
//
// Pure: the device is behind `chunk_device`; torch/pinned_staging implements it for LibTorch.
//
// Thread rule: one thread for each lane, which ends with the call. Errors: rethrows what the device
// throws, after all its transfers have ended.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::worker {

class chunk_device {
 public:
  virtual ~chunk_device() = default;
  // Starts the transfer of these bytes into an emptied buffer, without waiting.
  virtual void begin(std::size_t buffer, std::size_t offset, std::size_t count) = 0;
  // Waits for the buffer's transfer. The bytes stay valid until the next begin() for it.
  virtual const char* finish(std::size_t buffer) = 0;
};

struct chunk_buffers {
  std::size_t count = 2;  // at least 1
  std::size_t bytes = 1;  // of each, at least 1; a lane, and thus a thread, should be worth as many
};

// Copies all `bytes` to `to`. There must be at least one lane, each with such buffers; with fewer
// chunks than lanes only the first lanes are used.
void copy_in_chunks(const std::vector<chunk_device*>& lanes, const chunk_buffers& buffers,
                    std::size_t bytes, char* to);

}  // namespace ddprun::worker
