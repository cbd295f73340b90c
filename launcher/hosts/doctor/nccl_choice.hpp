// Which network interface NCCL takes for its bootstrap: the first that suits it, reachable or not
// (NCCL 2.30, src/misc/socket.cc: ncclFindInterfaces).
#pragma once

#include "launcher/network/own_addresses.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// `own`: in the kernel's order, loopback among them. `wanted`: NCCL_SOCKET_IFNAME, "eth,ib"
// (beginnings of names), "=eth0" (whole names), "^docker" (not these); empty: not set. None: NCCL
// would say "no socket interface found".
std::optional<interface_address> nccl_choice(const std::vector<interface_address>& own,
                                             const std::string& wanted);

}  // namespace ddprun::launcher::doctor
