// The processors, NUMA nodes and GPUs of this machine, from the kernel's /sys and the driver's
// /proc.
//
// Thread rule: any thread; the files that it reads never block.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct numa_topology {
  struct processor {
    int number = 0;
    int socket = 0;
    int core = 0;   // the lowest processor of the same core
    int cache = 0;  // the lowest one that shares the cache of the highest level
  };
  // By NUMA node, in order of their numbers; only processors on which this process may run. Nodes
  // without any are left out.
  std::map<int, std::vector<processor>> nodes;
  // The NUMA node of each GPU that the workers see, in CUDA's order, assumed to be the bus order.
  // Empty: there are none, or not all are known.
  std::vector<int> gpus;
};

// `root` replaces "/"; `allowed` are the processors on which this process may run.
numa_topology read_numa_topology(const std::string& root, const std::vector<int>& allowed,
                                 const environment_map& environment);

// The processors on which that process may run; 0: this one. Empty: it has ended.
std::vector<int> allowed_processors(int pid = 0);

// Reads "0-2,4,6-7", the kernel's form of processor lists; anything else is skipped.
std::vector<int> read_number_list(std::string_view text);
// The reverse; `numbers` must be in order.
std::string number_list(const std::vector<int>& numbers);

}  // namespace ddprun::launcher
