// The node address is where Slurm itself reaches a node (NodeAddr), for sites whose node names are
// Slurm's alone: no name service and no /etc/hosts knows them.
//
// Thread rule: any thread. node_address asks the name service, and scontrol, which asks slurmctld;
// it blocks for as long as these do, ten seconds at most for scontrol.
// Source of the form: scontrol(1) "show node", Slurm 22.05.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher::slurm {

// NodeAddr in what `scontrol show node NAME` prints; empty: it is not there, or is only the name.
std::string address_in(std::string_view shown, std::string_view name);

// Empty: the name resolves here, or scontrol knows no better.
std::string node_address(const std::string& name, const environment_map& environment);

}  // namespace ddprun::launcher::slurm
