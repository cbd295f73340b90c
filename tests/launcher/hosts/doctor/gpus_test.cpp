#include "launcher/hosts/doctor/gpus.hpp"

#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

#include <unistd.h>

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;
namespace fs = std::filesystem;

namespace {

void put_gpus(const fake_node& node, int count) {
  node.write("dev/nvidiactl", "");
  for (int gpu = 0; gpu < count; ++gpu)
    node.write("dev/nvidia" + std::to_string(gpu), "");
}

void put_driver(const fake_node& node) {
  node.write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:07:50 UTC "
             "2025\nGCC version:  gcc version 12.2.0");
}

std::string gpus_of(const fake_node& node, const ddprun::environment_map& environment = {}) {
  return line_of(judge_gpus(read_gpus(node.root(), environment)), "GPUs");
}

}  // namespace

TEST_CASE("a node without GPUs is no fault") {
  const fake_node node;
  CHECK(gpus_of(node) == "ok: none");
  CHECK(judge_gpus(read_gpus(node.root(), {})).size() == 1);
}

TEST_CASE("GPUs, their driver, and what is hidden of them") {
  const fake_node node;
  put_gpus(node, 8);
  put_driver(node);
  CHECK(gpus_of(node) == "ok: 8, driver 580.65.06");
  CHECK(gpus_of(node, {{"CUDA_VISIBLE_DEVICES", "0,3"}}) ==
        "ok: 8, driver 580.65.06; CUDA_VISIBLE_DEVICES=0,3 leaves 2");
  CHECK(gpus_of(node, {{"CUDA_VISIBLE_DEVICES", ""}})
            .starts_with("warning: 8, driver 580.65.06; CUDA_VISIBLE_DEVICES= leaves 0"));
}

TEST_CASE("a container without its devices, and devices without a driver") {
  const fake_node container;
  put_driver(container);
  CHECK(gpus_of(container).starts_with(
      "error: driver 580.65.06 is loaded, but there is no GPU device"));
  const fake_node broken;
  put_gpus(broken, 2);
  CHECK(gpus_of(broken).starts_with("error: 2 device files, but no driver"));
}

TEST_CASE("GPUs that the driver knows, unused since the host has started") {
  const fake_node node;
  put_driver(node);
  for (const char* const address : {"0000:01:00.0", "0000:02:00.0"})
    node.write("proc/driver/nvidia/gpus/" + std::string(address) + "/information", "");
  CHECK(gpus_of(node).starts_with(
      "warning: 2, driver 580.65.06, but there is no device file here: "));
}

TEST_CASE("GPUs of AMD and Intel are those that --nproc-per-node counts") {
  const fake_node rocm;
  const auto put_amd = [&](int number, const std::string& id) {
    const std::string place = "sys/class/kfd/kfd/topology/nodes/" + std::to_string(number);
    rocm.write(place + "/gpu_id", id);
    rocm.write(place + "/properties", "simd_count 440");
  };
  put_amd(0, "0");  // the processors
  put_amd(1, "4711");
  put_amd(2, "4712");
  CHECK(gpus_of(rocm) == "ok: 2 of AMD");
  CHECK(gpus_of(rocm, {{"HIP_VISIBLE_DEVICES", "1"}}) ==
        "ok: 2 of AMD; HIP_VISIBLE_DEVICES=1 leaves 1");
  CHECK(gpus_of(rocm, {{"ROCR_VISIBLE_DEVICES", ""}}).starts_with("warning: 2 of AMD; "));

  const fake_node intel;
  intel.write("sys/class/drm/renderD128/device/vendor", "0x8086");
  intel.write("sys/class/drm/renderD129/device/vendor", "0x1002");
  CHECK(gpus_of(intel) == "ok: 1 of Intel");
}

TEST_CASE("the process that holds a GPU is named") {
  const fake_node node;
  put_gpus(node, 1);
  put_driver(node);
  node.write("proc/4711/comm", "python3");
  fs::create_directories(node.root() / "proc/4711/fd");
  fs::create_symlink("/dev/nvidiactl", node.root() / "proc/4711/fd/3");
  CHECK(read_gpus(node.root(), {}).holders.empty());  // it has asked for their number only
  fs::create_symlink("/dev/nvidia0", node.root() / "proc/4711/fd/4");
  const std::string line = line_of(judge_gpus(read_gpus(node.root(), {})), "GPU users");
  CHECK(line.starts_with("warning: 4711 python3 ("));
}

TEST_CASE("many processes that hold GPUs are counted") {
  gpu_facts facts;
  facts.holders.assign(100, {1, "python3", "ada"});
  CHECK(line_of(judge_gpus(facts), "GPU users").find("1 python3 (ada) and 92 more: ") !=
        std::string::npos);
}

TEST_CASE("a port of InfiniBand that is down is named") {
  const fake_node node;
  node.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  CHECK(line_of(judge_gpus(read_gpus(node.root(), {})), "InfiniBand") ==
        "ok: 1 of 1 ports are active");
  node.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  CHECK(line_of(judge_gpus(read_gpus(node.root(), {})), "InfiniBand")
            .starts_with("warning: 1 of 2 ports are active: not mlx5_1/1 (1: DOWN): "));
}
