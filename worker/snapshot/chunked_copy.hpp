// Copies bytes of a device to host memory through a few small buffers that the device can write to
// by itself (pinned memory): while one is emptied, the device fills the next. So the pinned memory
// that it takes is bounded, however large the tensors are.
//
// One core cannot empty buffers as fast as a GPU fills them: a copy of several chunks has several
// lanes, each with a thread, buffers and a share of the bytes of its own.
//
// Pure: the device is behind `chunk_device`. torch/pinned_staging is the one of LibTorch.
//
// Thread rule: one thread for each lane, and none once the call is over. Errors: what the device
// throws, once it has nothing under way any more.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::worker {

class chunk_device {
 public:
  virtual ~chunk_device() = default;
  // Has the device bring these bytes to the buffer, and does not wait. It was emptied before.
  virtual void begin(std::size_t buffer, std::size_t offset, std::size_t count) = 0;
  // Waits until the buffer has what was begun for it, which is there until the next begin().
  virtual const char* finish(std::size_t buffer) = 0;
};

struct chunk_buffers {
  std::size_t count = 2;  // at least 1
  std::size_t bytes = 1;  // of each, at least 1; so many are worth a lane, which costs a thread
};

// On return all `bytes` are at `to`. There is at least one lane, and each has such buffers; a copy
// of fewer chunks than there are lanes uses the first ones.
void copy_in_chunks(const std::vector<chunk_device*>& lanes, const chunk_buffers& buffers,
                    std::size_t bytes, char* to);

}  // namespace ddprun::worker
