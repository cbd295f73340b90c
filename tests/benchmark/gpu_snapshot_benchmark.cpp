// Measures how long training waits for a snapshot of what is on a GPU: the copy of the state
// through pinned memory of bounded size (torch/pinned_staging), and the ordinary one, to memory
// that is not pinned, alternating; medians. The limit is one copy to pinned memory of 256 MiB.
//
// The folder should be in memory (/dev/shm), so that the disk is not measured. Without a GPU it
// says so, and does nothing.
//
//   gpu_snapshot_benchmark [--rounds=N] [--bytes=N[,N...]] [--folder=DIR]
#include "tests/benchmark/measured.hpp"
#include "worker/snapshot/snapshots.hpp"
#include "worker/torch/tensor_bytes.hpp"
#include "worker/torch_cuda/nccl_backend.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace ddprun;
using namespace ddprun::worker;
using benchmark::rate;
using benchmark::seconds_of;
using benchmark::spread;

constexpr double gibibyte = 1 << 30;

struct options {
  int rounds = 5;
  std::vector<std::uint64_t> bytes{std::uint64_t{1} << 30, std::uint64_t{8} << 30};
  std::string folder = "/dev/shm/gpu-snapshot-benchmark";
};

[[noreturn]] void fail(const std::string& text) {
  benchmark::fail("gpu_snapshot_benchmark", text);
}

// Like a transformer: each layer of 64 MiB has matrices and as many vectors.
std::vector<torch::Tensor> model_of(std::uint64_t bytes, c10::Device device) {
  const auto floats = torch::TensorOptions(device).dtype(torch::kFloat);
  std::vector<torch::Tensor> all;
  std::uint64_t made = 0;
  while (made < bytes) {
    for (const std::int64_t rows : {1024, 1024, 1024, 1024, 4096, 4096}) {
      all.push_back(torch::ones({rows, rows == 4096 ? 1536 : 1024}, floats));
      all.push_back(torch::ones({rows}, floats));
      made += all.back().nbytes() + all[all.size() - 2].nbytes();
    }
  }
  return all;
}

tensor_view ordinary_view_of(const std::string& name, const torch::Tensor& tensor) {
  tensor_view view;
  view.name = name;
  view.type = element_type::f32;
  view.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  view.copy = [tensor](char* to) {
    torch::from_blob(to, tensor.sizes(), tensor.options().device(torch::kCPU)).copy_(tensor);
  };
  return view;
}

class job {
 public:
  using view_maker = std::function<tensor_view(const std::string&, const torch::Tensor&)>;

  job(const std::string& folder, const std::vector<torch::Tensor>& model, view_maker view)
      : model_(model), view_(std::move(view)) {
    snapshots_options keeping;
    keeping.folder = folder;
    keeping.keep = 1;
    std::string problem;
    auto opened = snapshots::open(environment(), keeping, problem);
    if (!opened) fail(problem);
    kept_ = std::move(*opened);
    save();  // the first save allocates memory for the copy
    wait();
  }
  void save() {
    snapshot_state state;
    for (std::size_t at = 0; at < model_.size(); ++at)
      state.replicated.tensors.push_back(view_("model." + std::to_string(at), model_[at]));
    if (kept_->save(++step_, 0, state)) fail(kept_->problem());
  }
  void wait() {
    if (kept_->wait()) fail(kept_->problem());
  }

 private:
  const std::vector<torch::Tensor>& model_;
  view_maker view_;
  std::unique_ptr<snapshots> kept_;
  std::uint64_t step_ = 0;
};

void tell_limit(c10::Device device) {
  const auto there = torch::ones({64 << 20}, torch::TensorOptions(device));
  auto here = torch::empty({64 << 20}, torch::TensorOptions().pinned_memory(true));
  here.copy_(there);
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round)
    seconds.push_back(0.25 / seconds_of([&] { here.copy_(there); }));
  std::printf("256 MiB to pinned memory, GiB/s          %s\n", spread(seconds).c_str());
}

void compare(const options& chosen, std::uint64_t bytes, c10::Device device) {
  const auto model = model_of(bytes, device);
  std::uint64_t all = 0;
  for (const auto& tensor : model)
    all += tensor.nbytes();
  const double size = static_cast<double>(all) / gibibyte;
  std::printf("\n%.2f GiB in %zu tensors, %d rounds: median (least to most)\n", size, model.size(),
              chosen.rounds);
  const c10::impl::VirtualGuardImpl gpu(device.type());
  // They are two jobs, so each has a folder of its own.
  job pinned(chosen.folder + "/pinned", model, view_of);
  job ordinary(chosen.folder + "/ordinary", model, ordinary_view_of);
  std::vector<double> pinned_seconds, ordinary_seconds, ratio, written;
  for (int round = 0; round < chosen.rounds; ++round) {
    gpu.synchronizeDevice(device.index());
    pinned_seconds.push_back(seconds_of([&] { pinned.save(); }));
    written.push_back(seconds_of([&] { pinned.wait(); }));
    ordinary_seconds.push_back(seconds_of([&] { ordinary.save(); }));
    ordinary.wait();
    ratio.push_back(ordinary_seconds.back() / pinned_seconds.back());
  }
  std::printf("training waits, pinned memory, s         %s\n", spread(pinned_seconds).c_str());
  std::printf("                GiB/s                    %s\n", rate(size, pinned_seconds).c_str());
  std::printf("training waits, ordinary memory, s       %s\n", spread(ordinary_seconds).c_str());
  std::printf("                GiB/s                    %s\n",
              rate(size, ordinary_seconds).c_str());
  std::printf("ordinary / pinned                        %s\n", spread(ratio).c_str());
  std::printf("  then written in, s                     %s\n", spread(written).c_str());
  std::fflush(stdout);
}

options parse(int count, char** values) {
  options chosen;
  const auto into_bytes = [&](const char* bytes) {
    chosen.bytes.clear();
    std::istringstream all(bytes);
    for (std::string one; std::getline(all, one, ',');)
      chosen.bytes.push_back(std::strtoull(one.c_str(), nullptr, 10));
  };
  benchmark::read_options("gpu_snapshot_benchmark",
                          "[--rounds=N] [--bytes=N[,N...]] [--folder=DIR]", count, values,
                          {{"--rounds=", benchmark::into_number(chosen.rounds)},
                           {"--bytes=", into_bytes},
                           {"--folder=", benchmark::into_text(chosen.folder)}});
  const auto is_too_small = [](std::uint64_t bytes) { return bytes == 0; };
  if (chosen.rounds < 1 || std::any_of(chosen.bytes.begin(), chosen.bytes.end(), is_too_small))
    fail("too small");
  return chosen;
}

}  // namespace

int main(int count, char** values) {
  const options chosen = parse(count, values);
  try {
    c10::Device device(c10::DeviceType::CUDA, 0);
    try {
      device = gpu_of(environment());
    } catch (const process_group_error&) {
      std::printf("left out: no NVIDIA GPU is visible\n");
      return 0;
    }
    tell_limit(device);
    for (const auto bytes : chosen.bytes) {
      std::filesystem::remove_all(chosen.folder);
      std::filesystem::create_directories(chosen.folder);
      compare(chosen, bytes, device);
    }
    std::filesystem::remove_all(chosen.folder);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}
