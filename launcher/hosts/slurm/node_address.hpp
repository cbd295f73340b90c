// The node address is where Slurm itself reaches a node (NodeAddr), for sites whose node names only
// Slurm knows, and no name service or /etc/hosts.
//
// Thread rule: any thread. node_address asks the name service and scontrol, which asks slurmctld;
// it blocks as long as they do, at most ten seconds for scontrol. Source of the form: scontrol(1)
// "show node", Slurm 22.05.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher::slurm {

// NodeAddr in the output of `scontrol show node NAME`; empty: missing, or just the name.
std::string address_in(std::string_view shown, std::string_view name);

// Empty: the name resolves here, or scontrol does not know more.
std::string node_address(const std::string& name, const environment_map& environment);

}  // namespace ddprun::launcher::slurm
