// Where the agents of a Slurm step meet without communication: each computes the ports from the
// numbers of the job and the step.
//
// They are in 61440 to 65535, like JAX's (jax/_src/clusters/slurm_cluster.py), above Linux's own
// port range. Consecutive jobs, and the steps of a job, start at different ports. If another
// program has the first one, the node with the daemon takes the next free one, and the others look
// for their run at each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::launcher::slurm {

inline constexpr std::size_t meeting_ports_count = 4;

// In the order in which they are tried; all different.
std::vector<std::uint16_t> meeting_ports(std::uint64_t job, std::uint64_t step);

}  // namespace ddprun::launcher::slurm
