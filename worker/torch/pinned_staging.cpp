#include "worker/torch/pinned_staging.hpp"

#include "worker/snapshot/chunked_copy.hpp"
#include "worker/snapshot/small_copies.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
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
static_assert(small_copies_bytes_max <= lane_buffers.bytes, "what comes together is one copy");

// A stream with its buffers.
class staging_lane final : public chunk_device {
 public:
  explicit staging_lane(c10::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
    // Later saves write to these buffers too, even if the first save happens in inference mode.
    const c10::InferenceMode off(false);
    for (std::size_t at = 0; at < lane_buffers.count; ++at) {
      buffers_.push_back(
          at::empty({static_cast<std::int64_t>(lane_buffers.bytes)},
                    at::TensorOptions(at::kByte).device(at::kCPU).pinned_memory(true)));
      arrived_.emplace_back(device.type());
    }
  }

  // Sets the source of begin().
  void read(const at::Tensor& bytes, const c10::Event& ready) {
    bytes_ = bytes;
    ready.block(stream_);
  }
  void let_go() { bytes_.reset(); }

  void begin(std::size_t buffer, std::size_t offset, std::size_t count) override {
    const c10::StreamGuard beside(stream_);  // the current stream is per thread
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
  std::vector<c10::Event> arrived_;  // one for each buffer
  at::Tensor bytes_;
};

// A tensor, and the position in the training thread's work at which it was prepared.
class bytes_on_gpu final : public device_bytes {
 public:
  explicit bytes_on_gpu(const at::Tensor& tensor)
      : tensor_(tensor.detach()), ready_(tensor.device().type()) {
    ready_.record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
  }

  int device() const override { return tensor_.device().index(); }
  void bring(std::span<const wanted> all) const override;
  void bring_alone(char* to) const;

  const at::Tensor& tensor() const { return tensor_; }
  void wait_on(const c10::Stream& stream) const { ready_.block(stream); }

 private:
  at::Tensor tensor_;
  c10::Event ready_;
};

at::Tensor bytes_in_order(const at::Tensor& tensor) {
  // A single element is contiguous with any stride, but view() needs a stride of 1.
  return tensor.resolve_conj()
      .resolve_neg()
      .contiguous()
      .as_strided({tensor.numel()}, {1})
      .view(at::kByte);
}

// The staging of one GPU.
class pinned_staging {
 public:
  explicit pinned_staging(c10::Device device)
      : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {
    const auto used = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, lanes);
    try {
      while (lanes_.size() < used)
        lanes_.push_back(std::make_unique<staging_lane>(device));
    } catch (const c10::Error& error) {
      // The system has no memory to pin, or a container's limit is reached.
      lanes_.clear();
      const std::string reason = error.what_without_backtrace();
      write_to_stderr("snapshots: no pinned memory for " + device.str() + " (" +
                      reason.substr(0, reason.find('\n')) +
                      "): its tensors are copied without, which takes longer");
    }
    for (const auto& lane : lanes_)
      devices_.push_back(lane.get());
  }

  void fetch(const bytes_on_gpu& one, char* to) {
    const std::lock_guard lock(mutex_);
    const c10::StreamGuard beside(stream_);
    one.wait_on(stream_);
    if (lanes_.empty()) {
      const auto& tensor = one.tensor();
      at::from_blob(to, tensor.sizes(), tensor.options().device(at::kCPU)).copy_(tensor);
      return;
    }
    copy(bytes_in_order(one.tensor()), to);
  }

  // Joins the tensors on the GPU, and copies them together.
  void fetch_together(std::span<const device_bytes::wanted> all) {
    const std::lock_guard lock(mutex_);
    const c10::StreamGuard beside(stream_);
    std::vector<at::Tensor> parts;
    for (const auto& each : all) {
      const auto& one = static_cast<const bytes_on_gpu&>(*each.from);
      one.wait_on(stream_);
      parts.push_back(bytes_in_order(one.tensor()));
    }
    const auto together = at::cat(parts);
    std::vector<char> arrived(together.nbytes());
    if (lanes_.empty()) {
      at::from_blob(arrived.data(), together.sizes(), at::kByte).copy_(together);
    } else {
      copy(together, arrived.data());
    }
    const char* from = arrived.data();
    for (std::size_t at = 0; at < all.size(); ++at) {
      std::memcpy(all[at].to, from, parts[at].nbytes());
      from += parts[at].nbytes();
    }
  }

 private:
  struct finally {
    std::function<void()> what;
    ~finally() { what(); }
  };

  void copy(const at::Tensor& bytes, char* to) {
    // The lanes must wait for the copy that made the bytes contiguous.
    c10::Event in_order(bytes.device().type());
    in_order.record(stream_);
    for (const auto& lane : lanes_)
      lane->read(bytes, in_order);
    const finally let_go{[this] {
      for (const auto& lane : lanes_)
        lane->let_go();
    }};
    copy_in_chunks(devices_, lane_buffers, bytes.nbytes(), to);
  }

  std::mutex mutex_;
  c10::Stream stream_;                                // makes tensors contiguous
  std::vector<std::unique_ptr<staging_lane>> lanes_;  // empty: no memory can be pinned
  std::vector<chunk_device*> devices_;
};

// It is never destroyed, because CUDA may be shut down before static objects are.
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

void bytes_on_gpu::bring(std::span<const wanted> all) const {
  staging_of(tensor_.device()).fetch_together(all);
}

void bytes_on_gpu::bring_alone(char* to) const {
  if (tensor_.numel() != 0) staging_of(tensor_.device()).fetch(*this, to);
}

}  // namespace

prepared_fetch prepare_fetch(const at::Tensor& tensor) {
  const auto bytes = std::make_shared<const bytes_on_gpu>(tensor);
  return {[bytes](char* to) { bytes->bring_alone(to); }, bytes};
}

}  // namespace ddprun::worker
