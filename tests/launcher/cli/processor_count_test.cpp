#include "launcher/cli/processor_count.hpp"

#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::launcher {
namespace {

// A machine, as described by its files.
struct machine {
  tests::temporary_folder folder;
  std::string root = folder.path + "/";

  void has(const std::string& file, const std::string& content) const {
    const std::filesystem::path whole = root + file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << content;
  }
  void has_amd(int node, const std::string& id, const std::string& properties) const {
    const std::string place = "sys/class/kfd/kfd/topology/nodes/" + std::to_string(node);
    has(place + "/gpu_id", id);
    has(place + "/properties", properties);
  }
  void mounts(const std::string& point, const std::string& type, const std::string& options) const {
    has("proc/self/mountinfo",
        "30 25 0:26 / " + point + " rw shared:9 - " + type + " source " + options + "\n");
  }
  std::uint32_t gpus(const environment_map& environment = {}) const {
    return count_processors(environment, root).gpus;
  }
  std::uint32_t xpus(const environment_map& environment = {}) const {
    return count_processors(environment, root).xpus;
  }
};

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES narrows the GPUs as CUDA reads it") {
  CHECK(visible_gpus(8, "0,1,2") == 3);
  CHECK(visible_gpus(8, "3") == 1);
  CHECK(visible_gpus(8, "") == 0);
  CHECK(visible_gpus(8, "-1") == 0);
  CHECK(visible_gpus(8, "0,-1,1") == 1);
  CHECK(visible_gpus(2, "0,7,1") == 1);
  CHECK(visible_gpus(8, "0,0") == 0);
  CHECK(visible_gpus(8, "NoDevFiles") == 0);
  CHECK(visible_gpus(8, "GPU-8f2,MIG-3a") == 2);
  CHECK(visible_gpus(8, "0, 1") == 2);
}

TEST_CASE("this machine has a processor, and no GPU is visible when all are hidden") {
  CHECK(count_processors({}).cpus >= 1);
  CHECK(count_processors({{"CUDA_VISIBLE_DEVICES", ""}}).gpus == 0);
}

TEST_CASE("a container's CPU limit is what it may use, rounded up") {
  const machine version_2;
  CHECK_FALSE(limited_cpus(version_2.root));
  version_2.mounts("/sys/fs/cgroup", "cgroup2", "rw");
  version_2.has("proc/self/cgroup", "0::/kubepods/pod/job\n");
  CHECK_FALSE(limited_cpus(version_2.root));
  version_2.has("sys/fs/cgroup/kubepods/pod/job/cpu.max", "max 100000\n");
  CHECK_FALSE(limited_cpus(version_2.root));
  version_2.has("sys/fs/cgroup/kubepods/pod/cpu.max", "350000 100000\n");
  CHECK(limited_cpus(version_2.root) == 4U);
  version_2.has("sys/fs/cgroup/kubepods/pod/job/cpu.max", "50000 100000\n");
  CHECK(limited_cpus(version_2.root) == 1U);
  CHECK(count_processors({}, version_2.root).cpus == 1);

  const machine own_root;  // in the container's own namespace of cgroups
  own_root.mounts("/sys/fs/cgroup", "cgroup2", "rw");
  own_root.has("proc/self/cgroup", "0::/\n");
  own_root.has("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(limited_cpus(own_root.root) == 2U);

  const machine version_1;
  version_1.mounts("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct");
  version_1.has("proc/self/cgroup", "7:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n");
  version_1.has("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  version_1.has("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(limited_cpus(version_1.root) == 3U);
  version_1.has("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(limited_cpus(version_1.root));
}

TEST_CASE("GPUs of NVIDIA are files in /dev, or known to the driver alone") {
  const machine idle;
  idle.has("proc/driver/nvidia/gpus/0000:01:00.0/information", "x");
  CHECK(idle.gpus() == 1);
  const machine used;
  for (const char* const name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"})
    used.has("dev/" + std::string(name), "");
  CHECK(used.gpus() == 2);
  CHECK(used.gpus({{"CUDA_VISIBLE_DEVICES", "1"}}) == 1);
}

TEST_CASE("GPUs of AMD are the nodes of ROCm's topology that this container may use") {
  const machine rocm;
  rocm.has_amd(0, "0\n", "simd_count 0\n");  // the processors
  rocm.has_amd(1, "4711\n", "simd_count 440\n");
  rocm.has_amd(2, "4712\n", "simd_count 440\n");
  rocm.has_amd(3, "4713\n", "");  // another container's
  CHECK(rocm.gpus() == 2);
  CHECK(rocm.gpus({{"HIP_VISIBLE_DEVICES", "1"}}) == 1);
  CHECK(rocm.gpus({{"HIP_VISIBLE_DEVICES", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0"}}) == 2);
  CHECK(rocm.gpus({{"CUDA_VISIBLE_DEVICES", "0"}}) == 1);
  CHECK(rocm.gpus({{"ROCR_VISIBLE_DEVICES", "1"}}) == 1);
  CHECK(rocm.gpus({{"ROCR_VISIBLE_DEVICES", "1"}, {"HIP_VISIBLE_DEVICES", "0,1"}}) == 1);
  CHECK(rocm.xpus() == 0);
}

TEST_CASE("XPUs are Intel's cards") {
  const machine intel;
  intel.has("sys/class/drm/renderD128/device/vendor", "0x8086\n");
  intel.has("sys/class/drm/renderD129/device/vendor", "0x8086\n");
  intel.has("sys/class/drm/card0/device/vendor", "0x8086\n");
  intel.has("sys/class/drm/renderD130/device/vendor", "0x1002\n");
  CHECK(intel.xpus() == 2);
  CHECK(intel.xpus({{"ZE_AFFINITY_MASK", "0.0"}}) == 1);
  CHECK(intel.gpus() == 0);
}

}  // namespace ddprun::launcher
