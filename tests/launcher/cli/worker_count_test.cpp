#include "launcher/cli/worker_count.hpp"

#include "tests/support/catch.hpp"

using kind = ddprun::launcher::worker_count_kind;

TEST_CASE("CUDA_VISIBLE_DEVICES narrows the GPUs as CUDA reads it") {
  CHECK(ddprun::launcher::visible_gpus(8, "0,1,2") == 3);
  CHECK(ddprun::launcher::visible_gpus(8, "3") == 1);
  CHECK(ddprun::launcher::visible_gpus(8, "") == 0);
  CHECK(ddprun::launcher::visible_gpus(8, "-1") == 0);
  CHECK(ddprun::launcher::visible_gpus(8, "0,-1,1") == 1);
  CHECK(ddprun::launcher::visible_gpus(2, "0,7,1") == 1);
  CHECK(ddprun::launcher::visible_gpus(8, "0,0") == 0);
  CHECK(ddprun::launcher::visible_gpus(8, "NoDevFiles") == 0);
  CHECK(ddprun::launcher::visible_gpus(8, "GPU-8f2,MIG-3a") == 2);
  CHECK(ddprun::launcher::visible_gpus(8, "0, 1") == 2);
}

TEST_CASE("the worker count follows from the machine") {
  const ddprun::launcher::processor_counts plain{.cpus = 6, .gpus = 0};
  const ddprun::launcher::processor_counts with_gpus{.cpus = 6, .gpus = 2};
  CHECK(*ddprun::launcher::count_workers({kind::number, 5}, plain) == 5);
  CHECK(*ddprun::launcher::count_workers({kind::cpu, 1}, with_gpus) == 6);
  CHECK(*ddprun::launcher::count_workers({kind::gpu, 1}, with_gpus) == 2);
  CHECK(*ddprun::launcher::count_workers({kind::automatic, 1}, with_gpus) == 2);
  CHECK(*ddprun::launcher::count_workers({kind::automatic, 1}, plain) == 6);
  const auto none = ddprun::launcher::count_workers({kind::gpu, 1}, plain);
  REQUIRE(none.has_error());
  CHECK(none.error().text.starts_with("--nproc-per-node=gpu: no GPU is visible here"));
}

TEST_CASE("this machine has a processor, and no GPU is visible when all are hidden") {
  CHECK(ddprun::launcher::count_processors({}).cpus >= 1);
  CHECK(ddprun::launcher::count_processors({{"CUDA_VISIBLE_DEVICES", ""}}).gpus == 0);
}
