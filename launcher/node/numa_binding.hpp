// --numa-binding: on which processors each worker of this node may run, by torchrun's rules
// (torch/numa/binding.py of PyTorch 2.15):
// - node: those of the NUMA node of the GPU whose number is the worker's local rank;
// - socket: those of all NUMA nodes of that node's socket;
// - exclusive: a part of that node's cores; they are divided among its GPUs, and the first ones
//   get one more where that does not come out even;
// - core-complex: those of that node that have one cache in common; the node's GPUs take turns,
//   the cache with most processors first.
// Where there is no GPU, which torchrun refuses, the local ranks take the NUMA nodes in turn; of
// more workers than GPUs the others begin again with the first GPU.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/node/numa_topology.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::launcher {

// The processors of each worker, in order, by local rank; empty with numa_mode::off. Errors: a
// worker would have none.
cli::parsed<std::vector<std::vector<int>>> bind_workers(numa_mode mode, std::uint32_t workers,
                                                        const numa_topology& topology);

// As it is typed.
std::string_view to_string(numa_mode mode);

}  // namespace ddprun::launcher
