// What the nodes of a doctor's meeting have seen of each other, as findings: one for each kind of
// trouble and node, however many pairs have it.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

// Whether all nodes reach each other at the addresses that a job would use, at random ports, with
// large packets.
findings judge_reach(const cluster_facts& facts);

// Which interfaces NCCL would choose by itself, and whether the others can reach them.
findings judge_nccl_interfaces(const cluster_facts& facts);

// Round trips and, if measured, bandwidth.
findings judge_speed(const cluster_facts& facts);

// Whether the nodes know each other by name.
findings judge_names(const cluster_facts& facts);

// Whether the nodes' addresses resolve back to their names, as ssh, Kerberos and some MPIs expect.
findings judge_addresses(const cluster_facts& facts);

// Whether the clocks agree.
findings judge_clocks(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
