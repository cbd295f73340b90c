// Whether a job has room on this node: open files, processes, memory, shared memory, disks,
// processors; and whether its clock is synchronised.
//
// Thread rule: `read_limits` may be called from any thread; it asks the kernel, and blocks up to
// its limit for each folder. `judge_limits` is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <filesystem>
#include <optional>

namespace ddprun::launcher::doctor {

// A file system, identified by a folder on it.
struct folder_room {
  std::string folder;
  std::string problem;     // why it is not writable; empty: it is
  bool is_silent = false;  // its file system does not answer
  std::uint64_t size = 0;  // bytes
  std::uint64_t free = 0;
};

// Empty optionals: there is no such limit.
struct limit_facts {
  std::optional<std::uint64_t> open_files;     // the hard limit, because ddprun raises the soft one
  std::optional<std::uint64_t> locked_memory;  // bytes
  bool has_infiniband = false;
  std::optional<std::uint64_t> processes_left;   // in our fullest cgroup
  std::optional<std::uint64_t> memory_left;      // bytes; in our fullest cgroup, or on the node
  std::optional<std::uint32_t> processor_limit;  // what the cgroups' CPU quota amounts to
  std::uint32_t processors = 1;                  // on which we may run
  folder_room shared_memory;
  std::vector<folder_room> folders;  // for temporary files, and for the state
  bool is_clock_set = true;          // by NTP, PTP or a hypervisor
};

// `folder_limit`: how long to wait for each folder; zero: without a limit, for a caller that nobody
// waits for.
limit_facts read_limits(const std::filesystem::path& root, const environment_map& environment,
                        duration folder_limit = duration::zero());

findings judge_limits(const limit_facts& facts);

}  // namespace ddprun::launcher::doctor
