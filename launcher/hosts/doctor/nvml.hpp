// Asks NVIDIA's management library (NVML, of which nvidia-smi is a front end) for the state of this
// node's GPUs.
//
// The library is the driver's, and is loaded only here. It opens every GPU, and where the driver
// hangs its calls do not return; so a process of its own asks it (answer_nvml_if_asked), which is
// killed at the caller's limit. In state D that does not end it, and the caller waits for the
// driver.
//
// Thread rule: any thread; blocks as long as the driver does. Source: nvml.h (the packages
// nvidia-ml-py 13.615 and cuda-nvml-dev): nvmlDeviceGetFieldValues with
// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (230), in drivers since 560; nvmlDeviceGetTotalEccErrors,
// nvmlDeviceGetRetiredPagesPendingStatus, nvmlDeviceGetRemappedRows.
#pragma once

#include <string>

namespace ddprun::launcher::doctor {

// A line for each thing that is known of a GPU, "[N/A]" for what its driver does not tell:
//   recovery INDEX, ACTION
//       None, Reset, Reboot, ...
//   errors INDEX, PENDING, COUNT
//       whether retired pages wait for a reset (Yes, No); uncorrected errors
//   remapped ADDRESS, PENDING, FAILURE
//       of memory rows
// so that what follows the first word is a line of nvidia-smi's CSV. Empty: the library is not
// there, or has no answer.
std::string nvml_answer(const char* library = "libnvidia-ml.so.1");

inline constexpr const char* nvml_argument = "--ddprun-asks-nvml";

// If that is the only argument: prints the answer, and ends this process.
void answer_nvml_if_asked(int argc, char** argv);

}  // namespace ddprun::launcher::doctor
