// All pairs of a doctor's meeting at a glance: a row for who asks, a column for who is asked.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

inline constexpr std::size_t table_nodes_max = 12;

// Round trips, or what is wrong; below it, where that was measured, MiB/s. Empty for fewer than two
// nodes, and for more than a screen is wide.
std::string pairs_table(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
