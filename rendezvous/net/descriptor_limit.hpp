// The process's limit of open files; each connection takes one.
//
// Thread rule: any thread, before others read the limit. Children inherit a raised limit unless
// their set-up restores the old one, as the launcher's does.
#pragma once

#include <cstddef>
#include <string>

namespace ddprun::net {

// The soft limit.
std::size_t descriptor_limit();

// Raises the soft limit towards the hard one as far as the system allows. Returns the new soft
// limit.
std::size_t raise_descriptor_limit();

// How far it can be raised.
std::size_t hard_descriptor_limit();

// What to tell the user if no program of ours could do its work with that limit; else empty.
std::string too_few_descriptors(std::size_t limit);

}  // namespace ddprun::net
