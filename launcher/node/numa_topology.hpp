// The processors, NUMA nodes and GPUs of this machine, as the kernel shows them in /sys and the
// driver in /proc.
//
// Thread rule: any thread; reads files, of which none may block.
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
    int cache = 0;  // the lowest one that has the same cache of the highest level
  };
  // By NUMA node, in order of their numbers; only those on which this process may run. A node
  // without any is not there.
  std::map<int, std::vector<processor>> nodes;
  // The NUMA node of each GPU that the workers see, in CUDA's order, which is taken to be that of
  // the bus. Empty: there is none, or not every one's place is known.
  std::vector<int> gpus;
};

// `root` stands for "/"; `allowed` are the processors on which this process may run.
numa_topology read_numa_topology(const std::string& root, const std::vector<int>& allowed,
                                 const environment_map& environment);

// Those on which that process may run; 0: this one. Empty: it has gone.
std::vector<int> allowed_processors(int pid = 0);

// "0-2,4,6-7", as the kernel writes lists of processors; what is no number is left out.
std::vector<int> read_number_list(std::string_view text);
// The other way round; `numbers` are in order.
std::string number_list(const std::vector<int>& numbers);

}  // namespace ddprun::launcher
