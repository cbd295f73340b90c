#include "launcher/cli/worker_count.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher {

using kind = worker_count_kind;

TEST_CASE("the worker count follows from the machine") {
  const processor_counts plain{.cpus = 6, .gpus = 0, .xpus = 0};
  const processor_counts with_gpus{.cpus = 6, .gpus = 2, .xpus = 0};
  const processor_counts with_xpus{.cpus = 6, .gpus = 0, .xpus = 4};
  CHECK(*count_workers({kind::number, 5}, plain) == 5);
  CHECK(*count_workers({kind::cpu, 1}, with_gpus) == 6);
  CHECK(*count_workers({kind::gpu, 1}, with_gpus) == 2);
  CHECK(*count_workers({kind::xpu, 1}, with_xpus) == 4);
  CHECK(*count_workers({kind::automatic, 1}, with_gpus) == 2);
  CHECK(*count_workers({kind::automatic, 1}, plain) == 6);
  const auto none = count_workers({kind::gpu, 1}, with_xpus);
  REQUIRE(none.has_error());
  CHECK(none.error().text.starts_with("--nproc-per-node=gpu: no GPU is visible here"));
  const auto no_xpu = count_workers({kind::xpu, 1}, with_gpus);
  REQUIRE(no_xpu.has_error());
  CHECK(no_xpu.error().text.starts_with("--nproc-per-node=xpu: no Intel GPU is visible here"));
}

// A processor with a graphics unit is no reason to start only one worker.
TEST_CASE("auto counts XPUs for a PyTorch that uses them") {
  const processor_counts with_xpus{.cpus = 6, .gpus = 0, .xpus = 4};
  CHECK(*count_workers({kind::automatic, 1}, with_xpus) == 6);
  CHECK(*count_workers({kind::automatic, 1}, with_xpus, true) == 4);
}

}  // namespace ddprun::launcher
