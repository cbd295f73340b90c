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

// Those of one kind, as --nproc-per-node counts them.
struct counted_gpus {
  std::uint32_t present = 0;
  std::uint32_t visible = 0;  // of those
  std::string narrowed_by;    // the variables that say which: "CUDA_VISIBLE_DEVICES=0,3"
};

struct gpu_facts {
  counted_gpus gpus;                        // NVIDIA's, else AMD's
  counted_gpus xpus;                        // Intel's
  std::uint32_t device_files = 0;           // NVIDIA's
  std::string driver;                       // NVIDIA's, "580.65.06"; empty: none is loaded
  std::vector<gpu_holder> holders;          // of processes that we may look into: all, for root
  std::vector<std::string> inactive_ports;  // of InfiniBand: "mlx5_0/1 (1: DOWN)"
  std::uint32_t active_ports = 0;
};

gpu_facts read_gpus(const std::filesystem::path& root, const environment_map& environment);

findings judge_gpus(const gpu_facts& facts);

}  // namespace ddprun::launcher::doctor
