// A fake GPU, which LibTorch calls in place of CUDA, and a backend for groups in place of NCCL.
// Both are of the process that calls with_fake_gpu(): a rank (ranks.hpp).
#pragma once

#include "worker/torch/process_group.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace ddprun::tests {

// The calls to this process's fake GPU and its backends, in order.
inline std::string& asked() {
  static std::string text;
  return text;
}

inline void note(const std::string& call) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  asked() += call + ";";
}

// How they answer. Any thread may ask.
struct fake_gpu_answers {
  // Whether the work before the event is done; events are counted from 1 as they are recorded.
  std::function<bool(std::uintptr_t event)> is_done = [](std::uintptr_t) { return true; };
  std::atomic<c10d::ErrorType> error{c10d::ErrorType::SUCCESS};
  std::function<void()> in_abort;
};

inline fake_gpu_answers& gpu_answers() {
  static fake_gpu_answers all;
  return all;
}

struct fake_gpu final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    static std::uintptr_t recorded = 0;
    *event = reinterpret_cast<void*>(++recorded);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return gpu_answers().is_done(reinterpret_cast<std::uintptr_t>(event));
  }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void synchronizeDevice(c10::DeviceIndex index) const override {
    note("synchronize " + std::to_string(index));
  }
};

// Like ProcessGroupNCCL's, its destructor aborts what was not shut down.
class fake_backend final : public c10d::Backend {
 public:
  fake_backend(int rank, int size) : Backend(rank, size) {}
  ~fake_backend() override {
    if (!is_ended_) note("abort of " + std::to_string(getSize()) + " in its destructor");
  }
  const std::string getBackendName() const override { return "fake"; }
  void shutdown() override {
    is_ended_ = true;
    note("shutdown of " + std::to_string(getSize()));
  }
  void abort() override {
    is_ended_ = true;
    note("abort of " + std::to_string(getSize()));
    if (gpu_answers().in_abort) gpu_answers().in_abort();
  }
  c10d::ErrorType getError() override { return gpu_answers().error; }

 private:
  std::atomic<bool> is_ended_{false};
};

inline worker::process_group_options with_fake_gpu() {
  static const fake_gpu gpu;
  c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)] = &gpu;
  worker::process_group_options options;
  options.backends.push_back([](c10d::ProcessGroup& group, const auto&, const auto&) {
    auto backend = c10::make_intrusive<fake_backend>(group.getRank(), group.getSize());
    backend->setBoundDeviceId(c10::Device(c10::DeviceType::CUDA, 0));
    group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  });
  return options;
}

}  // namespace ddprun::tests
