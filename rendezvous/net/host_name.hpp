// The name of this host.
//
// Thread rule: any thread.
#pragma once

#include <string>

namespace ddprun::net {

// The name as the kernel reports it; "localhost" if it reports none.
std::string full_host_name();

// The same, cut at the first dot.
std::string short_host_name();

}  // namespace ddprun::net
