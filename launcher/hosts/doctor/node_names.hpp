// The names of a doctor's nodes in sentences.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

#include <set>

namespace ddprun::launcher::doctor {

// The host's name, with the address if several hosts have that name: "node (10.0.0.1)".
std::vector<std::string> node_names(const std::vector<node_card>& cards);

// "node-a, node-b, node-c and 29 more"; "all 32 nodes".
std::string list_of(const std::set<std::uint32_t>& nodes, const std::vector<std::string>& names);

}  // namespace ddprun::launcher::doctor
