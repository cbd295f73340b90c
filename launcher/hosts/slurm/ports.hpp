// Where the agents of one Slurm step meet without a word between them: each works the ports out of
// the job's and the step's number.
//
// They lie in 61440 to 65535, as JAX's do (jax/_src/clusters/slurm_cluster.py): above those that
// Linux hands out by itself. Jobs that follow each other, and the steps of one job, begin at
// different ones. Where another program has the first, the node that holds the daemon takes the
// next that is free, and the others look for their run at each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::launcher::slurm {

inline constexpr std::size_t meeting_ports_count = 4;

// In the order in which they are tried; all different.
std::vector<std::uint16_t> meeting_ports(std::uint64_t job, std::uint64_t step);

}  // namespace ddprun::launcher::slurm
