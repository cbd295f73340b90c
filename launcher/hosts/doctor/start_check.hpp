// What `ddprun` checks before its first round with --check auto: the doctor's checks that only need
// the kernel. Findings are printed, one line each, and stop nothing.
//
// Thread rule: a `start_look` is used by one thread; a check that exceeds its limit, such as on a
// hanging file system, is left behind on a thread of its own and not reported. The functions block.
#pragma once

#include "launcher/base/begun_task.hpp"
#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

inline constexpr std::chrono::milliseconds start_check_limit{50};

// Checks the interfaces named for NCCL and Gloo, shared memory, limits, full disks, and whether the
// driver is too old for PyTorch's CUDA. Returns problems only.
findings check_start(const std::filesystem::path& root, const environment_map& environment);

// All findings of limits.hpp, good or bad, for folders that are writable.
findings check_room(const std::filesystem::path& root, const environment_map& environment);

// Runs `check_start` while the caller does other work.
class start_look {
 public:
  start_look(duration limit, const std::filesystem::path& root, const environment_map& environment);

  // The findings as lines: "GLOO_SOCKET_IFNAME: eth9 is no interface with an address here: unset
  // it, or ...". Empty: not ready yet; `waits`: wait for the rest of the limit. They are returned
  // once.
  std::optional<std::vector<std::string>> take(bool waits);

 private:
  begun_task<findings> task_;
};

// The oldest driver for each CUDA is in its release notes (CUDA Toolkit and minimum driver
// versions). Returns nothing if either is unknown.
findings judge_driver(const std::string& driver, const std::string& torch);

// Finds "535.54.03" in the first line of /proc/driver/nvidia/version; empty: not there.
std::string driver_in(const std::string& line);

// PyTorch's version in the environment of this Python, read from its files; empty if not found.
std::string torch_beside(const std::filesystem::path& python);

}  // namespace ddprun::launcher::doctor
