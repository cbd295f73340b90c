// All that a doctor's meeting has found out, as findings: the nodes themselves, then what
// judge_pairs.hpp says of them.
//
// Every node has the same facts, and so the same findings.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

findings judge_cluster(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
