// This node's GPUs and InfiniBand cards without loading CUDA: what is present, what hides it, which
// processes use it.
//
// Thread rule: `read_gpus` may be called from any thread and reads /dev, /proc and /sys; the judge
// is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "launcher/node/gpu_holders.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// GPUs of one vendor, as --nproc-per-node counts them.
struct counted_gpus {
  std::uint32_t present = 0;
  std::uint32_t visible = 0;  // of those
  std::string narrowed_by;    // the variables that restrict them: "CUDA_VISIBLE_DEVICES=0,3"
};

struct gpu_facts {
  counted_gpus gpus;                // NVIDIA's, otherwise AMD's
  counted_gpus xpus;                // Intel's
  std::uint32_t device_files = 0;   // NVIDIA's
  std::string driver;               // NVIDIA's, "580.65.06"; empty: not loaded
  std::vector<gpu_holder> holders;  // among processes that we may inspect; root may inspect all
  std::vector<std::string> inactive_ports;  // InfiniBand's: "mlx5_0/1 (1: DOWN)"
  std::uint32_t active_ports = 0;
};

gpu_facts read_gpus(const std::filesystem::path& root, const environment_map& environment);

findings judge_gpus(const gpu_facts& facts);

}  // namespace ddprun::launcher::doctor
