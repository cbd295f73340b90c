// The GPUs of this node and the InfiniBand cards beside them, without loading CUDA: what is there,
// what hides it, who holds it.
//
// Thread rule: `read_gpus` any thread, it reads /dev, /proc and /sys; the judge is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <filesystem>
#include <optional>
#include <sys/types.h>

namespace ddprun::launcher::doctor {

struct gpu_holder {
  pid_t process = 0;
  std::string program;
  std::string user;  // a name, or a number
};

struct gpu_facts {
  std::uint32_t devices = 0;                // NVIDIA's device files
  std::uint32_t visible = 0;                // of those, what CUDA_VISIBLE_DEVICES leaves
  std::string visible_devices;              // that variable
  std::string driver;                       // "580.65.06"; empty: none is loaded
  std::vector<gpu_holder> holders;          // of processes that we may look into: all, for root
  std::vector<std::string> inactive_ports;  // of InfiniBand: "mlx5_0/1 (1: DOWN)"
  std::uint32_t active_ports = 0;
};

gpu_facts read_gpus(const std::filesystem::path& root, const environment_map& environment);

findings judge_gpus(const gpu_facts& facts);

}  // namespace ddprun::launcher::doctor
