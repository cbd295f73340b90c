// Why this node should take no part in another round, as far as that can be known without running
// anything on its GPUs: shared memory or a disk that is full, and GPUs that have to be reset before
// they work again.
//
// Thread rule: pure functions, but for health_now, which reads and blocks: for as long as a file
// system hangs, and for nvidia-smi, which is given 5 s.
// Source: `nvidia-smi --help-query-gpu`, gpu_recovery_action (None, Reset, Reboot, Drain P2P,
// Drain and Reset), of drivers from 560 on; older ones do not know it, and nothing is said of them.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <filesystem>
#include <string>

namespace ddprun::launcher::doctor {

// One line; empty: nothing was found.
std::string health_now(const std::filesystem::path& root, const environment_map& environment);

// Of what nvidia-smi prints as CSV without a header: "0, None\n3, Reset\n" -> "GPU 3 needs: Reset".
std::string judge_recovery(const std::string& csv);

// What is full by now, in one line.
std::string errors_of(const findings& found);

}  // namespace ddprun::launcher::doctor
