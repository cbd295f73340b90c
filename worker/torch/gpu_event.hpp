// A place in the work of GPUs: behind all that this thread's current streams have been given.
//
// Thread rule: record() on the thread that trains; the event on any. Errors: LibTorch's, which
// include those that the GPU reports.
#pragma once

#include "worker/training/device_watch.hpp"

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <memory>
#include <vector>

namespace ddprun::worker {

class gpu_event final : public device_event {
 public:
  static std::shared_ptr<const gpu_event> record(const std::vector<c10::Device>& gpus);
  bool is_done() const override;

 private:
  std::vector<c10::Device> gpus_;
  std::vector<c10::Event> events_;  // of each of them
};

}  // namespace ddprun::worker
