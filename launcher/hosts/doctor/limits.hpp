// Whether a job has room on this node: open files, processes, memory, shared memory, disks,
// processors; and whether its clock is set.
//
// Thread rule: `read_limits` any thread, it asks the kernel, and blocks for as long as it may for
// each folder; `judge_limits` is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <filesystem>
#include <optional>

namespace ddprun::launcher::doctor {

// A file system, by a folder on it.
struct folder_room {
  std::string folder;
  std::string problem;     // why nothing can be written there; empty: it can
  bool is_silent = false;  // its file system gives no answer
  std::uint64_t size = 0;  // bytes
  std::uint64_t free = 0;
};

// Of a limit that does not exist there is none.
struct limit_facts {
  std::optional<std::uint64_t> open_files;     // the hard limit: ddprun raises the soft one
  std::optional<std::uint64_t> locked_memory;  // bytes
  bool has_infiniband = false;
  std::optional<std::uint64_t> processes_left;   // in the fullest cgroup that we are in
  std::optional<std::uint64_t> memory_left;      // bytes; likewise, or on the node
  std::optional<std::uint32_t> processor_limit;  // what the cgroups' time comes to
  std::uint32_t processors = 1;                  // on which we may run
  folder_room shared_memory;
  std::vector<folder_room> folders;  // for files of the moment, and for the state
  bool is_clock_set = true;          // by NTP, PTP or a hypervisor
};

// `folder_limit`: for how long a folder is waited for; zero: for ever, by a caller that is not
// waited for itself.
limit_facts read_limits(const std::filesystem::path& root, const environment_map& environment,
                        duration folder_limit = duration::zero());

findings judge_limits(const limit_facts& facts);

}  // namespace ddprun::launcher::doctor
