// A rank with tensors on a GPU: adds up ranks over NCCL, on LibTorch.
#include "worker/torch_cuda/nccl_backend.hpp"

#include <ATen/ops/full.h>

#include <cstdio>
#include <exception>

int main() {
  using namespace ddprun::worker;
  try {
    const auto here = read_environment();
    const c10::Device device = gpu_of(here);
    process_group_options options;
    options.backends.push_back(nccl_backend(device));
    auto group = process_group::join(here, options);
    auto sum = at::full({1024}, static_cast<double>(here.rank + 1), at::TensorOptions(device));
    group.all_reduce_sum(sum);
    std::printf("rank %u: %g\n", here.rank, sum.min().item<double>());
    // Another group, which is closed with the first, and work that nobody has waited for.
    auto part = group.subgroup({0});
    for (int more = 0; part && more < 100; ++more)
      part->all_reduce_sum(sum);
    for (int more = 0; more < 100; ++more)
      group.all_reduce_sum(sum);
    group.close();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_cuda_rank: %s\n", error.what());
    return 1;
  }
}
