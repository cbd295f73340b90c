// Predicts the network interface for NCCL's bootstrap: the first suitable one, reachable or not
// (NCCL 2.30, src/misc/socket.cc: ncclFindInterfaces).
#pragma once

#include "launcher/network/own_addresses.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// `own`: in the kernel's order, including loopback. `wanted`: NCCL_SOCKET_IFNAME, "eth,ib"
// (prefixes), "=eth0" (whole names), "^docker" (exclusions); empty: not set. Empty result: NCCL
// would say "no socket interface found".
std::optional<interface_address> nccl_choice(const std::vector<interface_address>& own,
                                             const std::string& wanted);

}  // namespace ddprun::launcher::doctor
