// The end of a group, and what it costs to be in one.
//
// REQUIRE only: CHECK is here a macro of LibTorch, which ends the program.
#include "tests/support/catch.hpp"
#include "tests/worker/torch/ranks.hpp"
#include "worker/torch/process_group.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <filesystem>

namespace ddprun::tests {
namespace {

using worker::environment;
using worker::process_group;
using worker::process_group_options;

// What this process's fake GPU and its backends were asked, in order.
std::string& asked() {
  static std::string text;
  return text;
}

// A GPU without one: LibTorch asks it what it asks CUDA's.
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
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void synchronizeDevice(c10::DeviceIndex index) const override {
    asked() += "synchronize " + std::to_string(index) + ";";
  }
};

class fake_backend final : public c10d::Backend {
 public:
  fake_backend(int rank, int size) : Backend(rank, size) {}
  const std::string getBackendName() const override { return "fake"; }
  void shutdown() override { asked() += "shutdown of " + std::to_string(getSize()) + ";"; }
};

process_group_options with_fake_gpu() {
  static const fake_gpu gpu;
  c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)] = &gpu;
  process_group_options options;
  options.backends.push_back([](c10d::ProcessGroup& group, const auto&, const auto&) {
    auto backend = c10::make_intrusive<fake_backend>(group.getRank(), group.getSize());
    backend->setBoundDeviceId(c10::Device(c10::DeviceType::CUDA, 0));
    group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  });
  return options;
}

std::size_t sockets() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone);
    if (target.string().starts_with("socket:")) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a group that closes waits for its GPU and shuts its backends down", "[torch]") {
  const auto said = run_ranks(2, [](const environment& here) -> std::string {
    auto group = process_group::join(here, with_fake_gpu());
    auto part = group.subgroup({0});
    auto other = group.subgroup({1, 0});
    other->close();
    asked() += "closed;";
    group.close();
    if (part) {
      try {
        part->barrier();
      } catch (const worker::process_group_error& error) {
        asked() += std::string(error.what()).find("the group is closed") != std::string::npos
                       ? "part is closed"
                       : error.what();
      }
    }
    return asked();
  });
  REQUIRE(said[0] ==
          "synchronize 0;shutdown of 2;closed;synchronize 0;shutdown of 1;shutdown of 2;"
          "part is closed");
  REQUIRE(said[1] == "synchronize 0;shutdown of 2;closed;synchronize 0;shutdown of 2;");
}

TEST_CASE("a rank is connected with those that it talks to", "[torch]") {
  constexpr std::uint32_t ranks = 24;
  const auto said = run_ranks(ranks, [](const environment& here) -> std::string {
    const std::size_t before = sockets();
    auto group = process_group::join(here);
    const bool one = group.any(here.rank == 7);
    const bool none = group.any(false);
    const std::size_t now = sockets() - before;
    group.barrier();
    return std::to_string(one) + std::to_string(none) + " " + std::to_string(now);
  });
  for (const auto& each : said) {
    INFO(each);
    REQUIRE(each.starts_with("10 "));
    // The store, where others find this rank, and those at distances 1, 2, 4, 8, 16 on both sides.
    REQUIRE(std::stoul(each.substr(3)) < 20);
  }
}

}  // namespace ddprun::tests
