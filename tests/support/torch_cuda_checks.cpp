// Checks worker/torch with tensors on a GPU. Prints one line for each check.
#include "worker/run.hpp"
#include "worker/snapshot/reader.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/snapshot/tensors_by_name.hpp"
#include "worker/torch/distributed_data_parallel.hpp"
#include "worker/torch/pinned_memory.hpp"
#include "worker/torch/pinned_staging.hpp"
#include "worker/torch/tensor_bytes.hpp"
#include "worker/torch_cuda/nccl_backend.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace worker = ddprun::worker;

void tell(bool is_right, const char* what) {
  std::printf("%s: %s\n", is_right ? "right" : "wrong", what);
}

bool complain(const std::string& what) {
  std::fprintf(stderr, "torch_cuda_checks: %s\n", what.c_str());
  return false;
}

struct folder {
  folder() {
    std::string made = (std::filesystem::temp_directory_path() / "cuda-checks-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) throw std::runtime_error("cannot make " + made);
    path = made;
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string path;
};

// Queues enough work on the current stream that later work is still pending after the host has gone
// on.
void keep_busy(c10::Device device) {
  auto factor = torch::full({8192, 8192}, 1e-4, torch::TensorOptions(device));
  for (int round = 0; round < 20; ++round)
    factor = factor.mm(factor);
}

// Another thread makes the copy, as the saver's does, while the GPU is still busy with earlier
// work.
bool fetches_behind_the_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl gpu(device.type());
  const c10::StreamGuard on(gpu.getStreamFromGlobalPool(device));
  auto state = torch::zeros({1 << 20}, torch::TensorOptions(device));
  keep_busy(device);
  state.fill_(7);
  const auto view = worker::view_of("state", state);
  auto copy = torch::zeros({1 << 20});
  std::thread([&] { view.copy(static_cast<char*>(copy.data_ptr())); }).join();
  return copy.eq(7).all().item<bool>();
}

// Of many lengths and orders, one longer than all the pinned memory that it comes through, and more
// small ones than come with one copy.
std::vector<std::pair<std::string, torch::Tensor>> tensors_of_many_kinds(c10::Device device) {
  const auto options = torch::TensorOptions(device);
  const auto whole = torch::arange(30'000'001, options.dtype(torch::kInt));
  const auto bytes = whole.narrow(0, 0, 5'000'003).to(torch::kByte);
  const auto pairs = torch::randn({100, 300, 2}, options);
  std::vector<std::pair<std::string, torch::Tensor>> all{
      {"whole", whole},
      {"second", whole.neg()},
      {"odd bytes", bytes},
      {"behind an odd byte", bytes.narrow(0, 1, 4'999'999)},
      {"transposed", whole.narrow(0, 0, 12'000'000).view({3000, 4000}).t()},
      {"every third", torch::randn({9'000'000}, options).slice(0, 0, 9'000'000, 3)},
      {"channels last",
       torch::randn({8, 64, 7, 7}, options).contiguous(torch::MemoryFormat::ChannelsLast)},
      {"conjugate", torch::view_as_complex(pairs).conj()},
      {"bfloat16", torch::randn({777'777}, options.dtype(torch::kBFloat16))},
      {"bool", torch::randn({65'537}, options).gt(0)},
      {"one", torch::tensor(5, options.dtype(torch::kLong))},
      {"one of two", torch::arange(2, options).slice(0, 0, 2, 2)},
      {"none", torch::arange(0, options)},
  };
  for (std::int64_t number = 0; number < 3000; ++number) {
    const auto type = number % 3 == 0 ? torch::kByte : torch::kFloat;
    all.emplace_back("small " + std::to_string(number),
                     torch::full({number % 50 + 1}, number % 200, options.dtype(type)));
  }
  return all;
}

enum class save_kind { asynchronous, waited_for, late };

// All of them go into a snapshot behind what the stream still writes, and are changed as soon as
// save() is over, or they are copied late, as by the next step; read again, they are what they
// were, through no more pinned memory than is promised.
bool keeps_tensors_of_many_kinds(c10::Device device, save_kind kind) {
  const auto before = tensors_of_many_kinds(device);
  std::vector<torch::Tensor> expected, kept;
  for (const auto& [name, tensor] : before)
    expected.push_back(tensor.cpu().resolve_conj().contiguous());
  for (const auto& [name, tensor] : tensors_of_many_kinds(device))
    kept.push_back(tensor.zero_());
  auto& pinned = *at::getHostAllocator(at::kCUDA);
  pinned.reset_peak_stats();
  const auto pinned_before = pinned.get_stats().allocated_bytes.current;

  const c10::impl::VirtualGuardImpl gpu(device.type());
  const c10::StreamGuard on(gpu.getStreamFromGlobalPool(device));
  gpu.synchronizeDevice(device.index());
  keep_busy(device);
  worker::snapshot_state state;
  for (std::size_t at = 0; at < before.size(); ++at) {
    kept[at].copy_(before[at].second, /*non_blocking=*/true);
    state.replicated.tensors.push_back(worker::view_of(before[at].first, kept[at]));
    state.replicated.tensors.back().may_be_late = true;
  }
  const folder there;
  std::string problem;
  worker::snapshots_options options;
  options.folder = there.path;
  options.is_asynchronous = kind != save_kind::waited_for;
  auto opened = worker::snapshots::open(worker::environment(), options, problem);
  if (!opened) return complain(problem);
  const auto error =
      kind == save_kind::late ? (*opened)->begin_save(1, 1, state) : (*opened)->save(1, 1, state);
  if (error) return complain((*opened)->problem());
  (*opened)->wait_until_copied();
  for (auto& tensor : kept)
    tensor.zero_();
  if ((*opened)->close()) return complain((*opened)->problem());
  const auto more = pinned.get_stats().allocated_bytes.peak - pinned_before;
  if (more > static_cast<std::int64_t>(worker::pinned_staging_bytes))
    return complain(std::to_string(more) + " bytes were pinned");

  const auto found = worker::read_newest_snapshot(there.path, problem);
  if (!found || !*found) return complain(problem);
  const auto tensors = worker::by_name((*found)->replicated);
  for (std::size_t at = 0; at < before.size(); ++at) {
    const auto& name = before[at].first;
    if (!tensors.contains(name)) return complain("no '" + name + "'");
    if (!torch::equal(worker::tensor_of(*tensors.at(name)), expected[at]))
      return complain("'" + name + "' is not what it was");
  }
  return true;
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

bool loads_into_pinned_memory(c10::Device device) {
  const auto batch = torch::ones({1000});
  torch::Tensor pinned;  // made on a thread, as by a data_loader
  std::thread([&] { pinned = worker::pinned_for(device, batch); }).join();
  const auto there = pinned.to(device, /*non_blocking=*/true);
  return pinned.is_pinned() && torch::equal(there.cpu(), batch);
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

// A machine that has no memory to pin.
struct no_pinned_memory final : at::HostAllocator {
  c10::DataPtr allocate(std::size_t) override { TORCH_CHECK(false, "no memory to pin"); }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool record_event(void*, void*, c10::Stream) override { return false; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

int main(int count, char** values) {
  return worker::run([&] {
    const auto here = worker::read_environment();
    const c10::Device device = worker::gpu_of(here);
    if (count == 2 && std::string(values[1]) == "without-pinned-memory") {
      static no_pinned_memory none;
      at::setHostAllocator(at::kCUDA, &none, 255);
      tell(keeps_tensors_of_many_kinds(device, save_kind::asynchronous),
           "all tensors are kept without pinned memory");
      return;
    }
    worker::process_group_options options;
    options.backends.push_back(worker::nccl_backend(device));
    auto group = worker::process_group::join(here, options);
    tell(fetches_behind_the_stream(device),
         "a snapshot has what the caller's stream was still to write");
    tell(keeps_tensors_of_many_kinds(device, save_kind::asynchronous),
         "tensors of any length and order are kept, through bounded pinned memory");
    tell(keeps_tensors_of_many_kinds(device, save_kind::waited_for),
         "and by a save that is waited for");
    tell(keeps_tensors_of_many_kinds(device, save_kind::late),
         "and by a save that copies them while the program goes on");
    tell(leaves_no_trace(group, device),
         "a pass to warm up leaves buffers and random numbers of the GPU as they were");
    tell(trains_in_bfloat16(group, device), "bfloat16 by autocast, with gradients of float32");
    tell(loads_into_pinned_memory(device), "a batch for the GPU lies in pinned memory");
    const auto nccl = group.native()->getBackend(c10::DeviceType::CUDA);
    tell(nccl->getBackendOptions()->timeout == std::chrono::minutes(10),
         "NCCL's timeout is 10 minutes");
    group.close();
  });
}
