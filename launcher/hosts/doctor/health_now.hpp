// Why this node should take no part in another round, as far as that can be known without running
// anything on its GPUs: shared memory or a disk that is full, GPUs that have to be reset before
// they work again, and GPUs with memory that has errors.
//
// Thread rule: pure functions, but for health_now, which reads and blocks: for as long as a file
// system hangs, and for nvidia-smi, which is given 5 s for each of three questions.
// Source: `nvidia-smi --help-query-gpu`, gpu_recovery_action (None, Reset, Reboot, Drain P2P,
// Drain and Reset), of drivers from 560 on; and, for older drivers,
// ecc.errors.uncorrected.volatile.total and retired_pages.pending there, and
// `nvidia-smi --help-query-remapped-rows`. NVIDIA's "GPU Memory Error Management" says what they
// mean: a reset mends all but a remapping that has failed.
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

// What nvidia-smi prints of each GPU's index, retired pages and errors, and of its bus address,
// pending and failed remapping: "0, No, 2\n" and "00000000:07:00.0, Yes, No\n" -> "GPU 0: 2
// uncorrected memory errors ...; GPU 00000000:07:00.0: ...". A driver that says what its GPUs need
// (`knows_recovery`) has taken account of what a reset mends: then only failed remapping counts.
std::string judge_gpu_memory(const std::string& errors_csv, const std::string& remapped_csv,
                             bool knows_recovery);

// Whether this is the answer of a driver that says what its GPUs need, if only None.
bool says_recovery(const std::string& csv);

// What is full by now, in one line.
std::string errors_of(const findings& found);

}  // namespace ddprun::launcher::doctor
