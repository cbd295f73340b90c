#include "launcher/cli/worker_count.hpp"

namespace ddprun::launcher {

cli::parsed<std::uint32_t> count_workers(const worker_count_request& request,
                                         const processor_counts& counts, bool is_for_xpu) {
  switch (request.kind) {
    case worker_count_kind::number:
      return request.number;
    case worker_count_kind::cpu:
      return counts.cpus;
    case worker_count_kind::automatic:
      if (counts.gpus > 0) return counts.gpus;
      return is_for_xpu && counts.xpus > 0 ? counts.xpus : counts.cpus;
    case worker_count_kind::gpu:
      if (counts.gpus > 0) return counts.gpus;
      return cli::usage_error{
          "--nproc-per-node=gpu: no GPU is visible here (/dev/nvidia*, ROCm's /sys/class/kfd, "
          "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES); give a number, or cpu"};
    case worker_count_kind::xpu:
      break;
  }
  if (counts.xpus > 0) return counts.xpus;
  return cli::usage_error{
      "--nproc-per-node=xpu: no Intel GPU is visible here (/sys/class/drm, ZE_AFFINITY_MASK); give "
      "a number, or cpu"};
}

}  // namespace ddprun::launcher
