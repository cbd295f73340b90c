// Says why this node should not take part in another round, as far as that can be known without
// running anything on its GPUs: shared memory or a disk is full, a GPU must be reset, or a GPU's
// memory has errors. It names workers that SIGKILL has not ended yet and that have a GPU open, and
// warns of other processes that have one open, as their memory is missing to the job.
//
// NVIDIA's management library is asked, by a process of our own (nvml.hpp), and nvidia-smi where
// that is not there.
//
// Thread rule: pure functions except for health_now, which blocks as long as a file system hangs,
// and for up to the limit for each of four programs. Source: `nvidia-smi --help-query-gpu`,
// gpu_recovery_action (None, Reset, Reboot, Drain P2P, Drain and Reset), in drivers since 560; for
// older drivers, ecc.errors.uncorrected.volatile.total and retired_pages.pending there, and
// `nvidia-smi --help-query-remapped-rows`. NVIDIA's "GPU Memory Error Management" explains them: a
// reset repairs everything except a failed remapping.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "launcher/node/node_look.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::doctor {

struct gpu_questions {
  std::string program = "/proc/self/exe";  // ddprun, to ask NVML
  duration limit = std::chrono::seconds(5);
};

// `agent`: whose descendants are this job's workers.
node_look health_now(const std::filesystem::path& root, const environment_map& environment,
                     pid_t agent, const gpu_questions& asked = {});

// Reads nvidia-smi's CSV without a header: "0, None\n3, Reset\n" -> "GPU 3 needs: Reset".
// `source`: who says so.
std::string judge_recovery(const std::string& csv, const std::string& source = "nvidia-smi");

// Reads nvidia-smi's CSV of each GPU's index, retired pages and errors, and of its bus address,
// pending and failed remapping: "0, No, 2\n" and "00000000:07:00.0, Yes, No\n" -> "GPU 0: 2
// uncorrected memory errors ...; GPU 00000000:07:00.0: ...". A driver that reports what its GPUs
// need (`knows_recovery`) has already considered what a reset repairs, so only a failed remapping
// counts.
std::string judge_gpu_memory(const std::string& errors_csv, const std::string& remapped_csv,
                             bool knows_recovery, const std::string& source = "nvidia-smi");

// True if this answer is from a driver that says what its GPUs need, even if that is None.
bool says_recovery(const std::string& csv);

// What has become full, in one line.
std::string errors_of(const findings& found);

}  // namespace ddprun::launcher::doctor
