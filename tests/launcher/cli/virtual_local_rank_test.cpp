#include "launcher/cli/virtual_local_rank.hpp"

#include "tests/support/catch.hpp"

#include <string>

namespace ddprun::launcher {
namespace {

// The variables that the worker with this local rank sees.
environment_map seen(environment_map variables, std::uint32_t local_rank) {
  variables["LOCAL_RANK"] = "9";
  set_own_gpu(variables, local_rank);
  CHECK(variables["LOCAL_RANK"] == "0");
  variables.erase("LOCAL_RANK");
  return variables;
}

std::string problem(std::uint32_t workers, const environment_map& inherited) {
  const auto wrong = check_own_gpus(workers, inherited);
  return wrong ? wrong->text : "";
}

}  // namespace

TEST_CASE("each worker sees the GPU at its local rank in the agent's list, or with that index") {
  CHECK(seen({}, 2) == environment_map{{"CUDA_VISIBLE_DEVICES", "2"}});
  const environment_map four = {{"CUDA_VISIBLE_DEVICES", "2,4, 7 ,GPU-8932f937"}};
  CHECK(seen(four, 0) == environment_map{{"CUDA_VISIBLE_DEVICES", "2"}});
  CHECK(seen(four, 2) == environment_map{{"CUDA_VISIBLE_DEVICES", "7"}});
  CHECK(seen(four, 3) == environment_map{{"CUDA_VISIBLE_DEVICES", "GPU-8932f937"}});
}

TEST_CASE("ROCm's list counts more, unless it is empty") {
  CHECK(seen({{"HIP_VISIBLE_DEVICES", "5,6"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}, 1) ==
        environment_map{{"HIP_VISIBLE_DEVICES", "6"}, {"CUDA_VISIBLE_DEVICES", "6"}});
  CHECK(seen({{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "3,1"}}, 1) ==
        environment_map{{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "1"}});
}

TEST_CASE("more workers than GPUs in the list are refused before any starts") {
  CHECK(problem(8, {}).empty());
  CHECK(problem(2, {{"CUDA_VISIBLE_DEVICES", "0,1"}}).empty());
  CHECK(problem(3, {{"CUDA_VISIBLE_DEVICES", "0,1"}}) ==
        "--virtual-local-rank: there are 3 workers, and CUDA_VISIBLE_DEVICES=0,1 names 2 GPUs: "
        "start fewer with --nproc-per-node, or name more");
  CHECK(problem(1, {{"CUDA_VISIBLE_DEVICES", ""}})
            .starts_with("--virtual-local-rank: there is 1 worker, and CUDA_VISIBLE_DEVICES= names "
                         "no GPU: "));
  CHECK(problem(2, {{"HIP_VISIBLE_DEVICES", "1"}}).find("HIP_VISIBLE_DEVICES=1 names 1 GPU:") !=
        std::string::npos);
}

}  // namespace ddprun::launcher
