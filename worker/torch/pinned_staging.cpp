#include "worker/torch/pinned_staging.hpp"

#include "worker/snapshot/chunked_copy.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::worker {
namespace {

constexpr std::size_t lanes = 4;
constexpr std::size_t buffers_of_lane = 4;
constexpr chunk_buffers lane_buffers{buffers_of_lane,
                                     pinned_staging_bytes / (lanes * buffers_of_lane)};

// A stream with its buffers.
class staging_lane final : public chunk_device {
 public:
  explicit staging_lane(c10::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
    // The first save may be a program's that only computes; later ones write to these, too.
    const c10::InferenceMode off(false);
    for (std::size_t at = 0; at < lane_buffers.count; ++at) {
      buffers_.push_back(
          at::empty({static_cast<std::int64_t>(lane_buffers.bytes)},
                    at::TensorOptions(at::kByte).device(at::kCPU).pinned_memory(true)));
      arrived_.emplace_back(device.type());
    }
  }

  // What begin() is about.
  void read(const at::Tensor& bytes, const c10::Event& ready) {
    bytes_ = bytes;
    ready.block(stream_);
  }
  void let_go() { bytes_.reset(); }

  void begin(std::size_t buffer, std::size_t offset, std::size_t count) override {
    const c10::StreamGuard beside(stream_);  // it is each thread's own
    const auto length = static_cast<std::int64_t>(count);
    buffers_[buffer]
        .narrow(0, 0, length)
        .copy_(bytes_.narrow(0, static_cast<std::int64_t>(offset), length), /*non_blocking=*/true);
    arrived_[buffer].record(stream_);
  }
  const char* finish(std::size_t buffer) override {
    arrived_[buffer].synchronize();
    return static_cast<const char*>(buffers_[buffer].const_data_ptr());
  }

 private:
  c10::Stream stream_;
  std::vector<at::Tensor> buffers_;
  std::vector<c10::Event> arrived_;  // one a buffer
  at::Tensor bytes_;
};

// Of one GPU.
class pinned_staging {
 public:
  explicit pinned_staging(c10::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
    const auto used = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, lanes);
    try {
      while (lanes_.size() < used)
        lanes_.push_back(std::make_unique<staging_lane>(device));
    } catch (const c10::Error& error) {
      // The system has none to give, or a container's limit is reached.
      lanes_.clear();
      const std::string reason = error.what_without_backtrace();
      write_to_stderr("snapshots: no pinned memory for " + device.str() + " (" +
                      reason.substr(0, reason.find('\n')) +
                      "): its tensors are copied without, which takes longer");
    }
    for (const auto& lane : lanes_)
      devices_.push_back(lane.get());
  }

  void fetch(const at::Tensor& tensor, const c10::Event& ready, char* to) {
    const std::lock_guard lock(mutex_);
    const c10::StreamGuard beside(stream_);
    ready.block(stream_);
    if (lanes_.empty()) {
      at::from_blob(to, tensor.sizes(), tensor.options().device(at::kCPU)).copy_(tensor);
      return;
    }
    // A single element counts as contiguous whatever its stride, and view() would mind that.
    const auto bytes = tensor.resolve_conj()
                           .resolve_neg()
                           .contiguous()
                           .as_strided({tensor.numel()}, {1})
                           .view(at::kByte);
    // The lanes wait for the copy, where one was made.
    c10::Event in_order(tensor.device().type());
    in_order.record(stream_);
    for (const auto& lane : lanes_)
      lane->read(bytes, in_order);
    const finally let_go{[this] {
      for (const auto& lane : lanes_)
        lane->let_go();
    }};
    copy_in_chunks(devices_, lane_buffers, bytes.nbytes(), to);
  }

 private:
  struct finally {
    std::function<void()> what;
    ~finally() { what(); }
  };

  std::mutex mutex_;
  c10::Stream stream_;                                // on which tensors are put in order
  std::vector<std::unique_ptr<staging_lane>> lanes_;  // none: no pinned memory can be had
  std::vector<chunk_device*> devices_;
};

// It stays until the end of the process: CUDA may be shut down before what is destroyed there.
pinned_staging& staging_of(c10::Device device) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<c10::DeviceIndex, std::unique_ptr<pinned_staging>>;
  const std::lock_guard lock(mutex);
  auto& one = all[device.index()];
  if (!one) {
    const c10::DeviceGuard on(device);
    one = std::make_unique<pinned_staging>(device);
  }
  return *one;
}

}  // namespace

std::function<void(char* to)> prepare_fetch(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  const auto ready = std::make_shared<c10::Event>(device.type());
  ready->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return [from = tensor.detach(), ready](char* to) {
    if (from.numel() != 0) staging_of(from.device()).fetch(from, *ready, to);
  };
}

}  // namespace ddprun::worker
