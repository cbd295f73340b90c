// How the nodes of a doctor's meeting are called in a sentence.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

#include <set>

namespace ddprun::launcher::doctor {

// Its host's name; where others have that, too, with its address: "node (10.0.0.1)".
std::vector<std::string> node_names(const std::vector<node_card>& cards);

// "node-a, node-b, node-c and 29 more"; "all 32 nodes".
std::string list_of(const std::set<std::uint32_t>& nodes, const std::vector<std::string>& names);

}  // namespace ddprun::launcher::doctor
