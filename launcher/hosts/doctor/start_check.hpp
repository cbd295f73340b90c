// What `ddprun` itself looks at before its first round, by --check auto: the doctor's checks that
// ask nobody but the kernel. What they find is said, a line each, and stops nothing.
//
// Thread rule: a `start_look` is one thread's; what takes longer than its limit, as a file system
// that hangs, is left behind on a thread of its own and said nothing of. The others block.
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

// Interfaces that NCCL and Gloo are told to use, shared memory, limits, disks that are full, and
// whether the driver is older than PyTorch's CUDA. Only what is not well.
findings check_start(const std::filesystem::path& root, const environment_map& environment);

// Of limits.hpp's checks what they find, well or not, in folders that can be written.
findings check_room(const std::filesystem::path& root, const environment_map& environment);

// `check_start` beside whatever else the caller does.
class start_look {
 public:
  start_look(duration limit, const std::filesystem::path& root, const environment_map& environment);

  // What was found, as lines: "GLOO_SOCKET_IFNAME: eth9 is no interface with an address here: unset
  // it, or ...". None yet: nothing, unless the caller waits for what is left of the limit. Once.
  std::optional<std::vector<std::string>> take(bool waits);

 private:
  begun_task<findings> task_;
};

// The oldest drivers of each CUDA are in its release notes (CUDA Toolkit and minimum driver
// versions). Empty where either is not known.
findings judge_driver(const std::string& driver, const std::string& torch);

// "535.54.03" of the first line of /proc/driver/nvidia/version; empty: there is none.
std::string driver_in(const std::string& line);

// That of the environment in which this Python is, by its files; empty where it is not found there.
std::string torch_beside(const std::filesystem::path& python);

}  // namespace ddprun::launcher::doctor
