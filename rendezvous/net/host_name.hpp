// What this host is called.
//
// Thread rule: any thread.
#pragma once

#include <string>

namespace ddprun::net {

// As the kernel has it; empty where there is none.
std::string full_host_name();

// The same, cut at the first dot.
std::string short_host_name();

}  // namespace ddprun::net
