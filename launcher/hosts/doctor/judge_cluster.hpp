// All findings of a doctor's meeting: those about the nodes, then those about pairs of nodes
// (judge_pairs.hpp).
//
// Every node has the same facts and so shows the same findings.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

findings judge_cluster(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
