// --numa-binding: on which processors each worker of this node may run, by torchrun's rules
// (torch/numa/binding.py of PyTorch 2.15):
//   - node: those of the NUMA node of the GPU whose number is the worker's local rank;
//   - socket: those of all NUMA nodes of that node's socket;
//   - exclusive: a part of that node's cores, which are divided among its GPUs; if that is not
//     even, the first ones get one more;
//   - core-complex: those of that node that share a cache; the node's GPUs take turns, the cache
//     with most processors first.
// Without a GPU, which torchrun refuses, the local ranks take the NUMA nodes in turn; if there are
// more workers than GPUs, the others start again with the first GPU.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/node/numa_topology.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::launcher {

// The processors of each worker, in order, by local rank; empty with numa_mode::off. Error: a
// worker would have none.
cli::parsed<std::vector<std::vector<int>>> bind_workers(numa_mode mode, std::uint32_t workers,
                                                        const numa_topology& topology);

// The option's value.
std::string_view to_string(numa_mode mode);

}  // namespace ddprun::launcher
