// What worker/torch does with tensors on a GPU, one line for each check.
#include "worker/run.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/tensor_bytes.hpp"
#include "worker/torch_cuda/nccl_backend.hpp"

#include <ATen/autocast_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace {

namespace worker = ddprun::worker;

void tell(bool is_right, const char* what) {
  std::printf("%s: %s\n", is_right ? "right" : "wrong", what);
}

// The copy is made by another thread, as the saver's, while the GPU is busy with what was given to
// it before.
bool fetches_behind_the_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl gpu(device.type());
  const c10::StreamGuard on(gpu.getStreamFromGlobalPool(device));
  const auto options = torch::TensorOptions(device);
  auto state = torch::zeros({1 << 20}, options);
  auto factor = torch::full({8192, 8192}, 1e-4, options);
  for (int round = 0; round < 20; ++round)
    factor = factor.mm(factor);
  state.fill_(7);
  const auto view = worker::view_of("state", state);
  auto copy = torch::zeros({1 << 20});
  std::thread([&] { view.copy(static_cast<char*>(copy.data_ptr())); }).join();
  return copy.eq(7).all().item<bool>();
}

bool leaves_no_trace(worker::process_group& group, c10::Device device) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  net->to(device);
  worker::distributed_data_parallel parallel(group, *net);
  const auto options = torch::TensorOptions(device);
  std::vector<torch::Tensor> before;
  for (const auto& buffer : net->buffers())
    before.push_back(buffer.clone());
  torch::manual_seed(17);
  const auto expected = torch::randn({4}, options);
  torch::manual_seed(17);
  parallel.warm_up([&] { return parallel.forward(net, torch::randn({6, 4}, options)).sum(); });
  bool is_right = torch::equal(torch::randn({4}, options), expected);
  for (std::size_t at = 0; at < before.size(); ++at)
    is_right = is_right && torch::equal(net->buffers()[at], before[at]);
  return is_right;
}

bool trains_in_bfloat16(worker::process_group& group, c10::Device device) {
  torch::nn::Sequential net(torch::nn::Linear(64, 64), torch::nn::Linear(64, 1));
  net->to(device);
  worker::distributed_data_parallel parallel(group, *net);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
  const auto output = parallel.forward(net, torch::ones({8, 64}, torch::TensorOptions(device)));
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  parallel.backward(output.to(torch::kFloat).sum());
  bool is_right = output.scalar_type() == torch::kBFloat16;
  for (const auto& parameter : net->parameters()) {
    is_right = is_right && parameter.grad().scalar_type() == torch::kFloat &&
               parameter.grad().isfinite().all().item<bool>();
  }
  return is_right;
}

}  // namespace

int main() {
  return worker::run([] {
    const auto here = worker::read_environment();
    const c10::Device device = worker::gpu_of(here);
    worker::process_group_options options;
    options.backends.push_back(worker::nccl_backend(device));
    auto group = worker::process_group::join(here, options);
    tell(fetches_behind_the_stream(device),
         "a snapshot has what the caller's stream was still to write");
    tell(leaves_no_trace(group, device),
         "a pass to warm up leaves buffers and random numbers of the GPU as they were");
    tell(trains_in_bfloat16(group, device), "bfloat16 by autocast, with gradients of float32");
    const auto nccl = group.native()->getBackend(c10::DeviceType::CUDA);
    tell(nccl->getBackendOptions()->timeout == std::chrono::minutes(10),
         "NCCL's timeout is 10 minutes");
    group.close();
  });
}
