// The process's limit of open files: each connection is one.
//
// Thread rule: any thread, before others read the limit. Children inherit a raised limit unless
// their set-up puts the old one back, as the launcher's does.
#pragma once

#include <cstddef>

namespace ddprun::net {

// The soft limit.
std::size_t descriptor_limit();

// Raises the soft limit to the hard one, as far as the system lets it; the soft limit after it.
std::size_t raise_descriptor_limit();

}  // namespace ddprun::net
