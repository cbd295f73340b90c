// What the nodes of a doctor's meeting have seen of each other, as findings: one for each kind of
// trouble and place, however many pairs have it.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

// Whether all reach all at the addresses that a job would use, at random ports, with many bytes.
findings judge_reach(const cluster_facts& facts);

// What NCCL would take by itself, and whether the others reach that.
findings judge_nccl_interfaces(const cluster_facts& facts);

// Round trips, and, where it was measured, how fast data goes.
findings judge_speed(const cluster_facts& facts);

// Whether each knows the others by name.
findings judge_names(const cluster_facts& facts);

// Whether the nodes' addresses lead back to their names, which ssh, Kerberos and some MPI ask for.
findings judge_addresses(const cluster_facts& facts);

// Whether clocks agree.
findings judge_clocks(const cluster_facts& facts);

}  // namespace ddprun::launcher::doctor
