// A table of all pairs of a doctor's meeting: a row for the node that asks, a column for the one
// asked.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

inline constexpr std::size_t table_nodes_max = 12;

// Round trips, or what is wrong; below that, if measured, MiB/s. Empty for fewer than two nodes,
// and for more than fit on a screen.
std::string pairs_table(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
