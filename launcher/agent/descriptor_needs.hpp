// Says before a round starts whether this process may open enough descriptors to serve it.
//
// Thread rule: may be called from any thread.
#pragma once

#include "rendezvous/core/member.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

// Whether this many agents may connect to a daemon in this process.
bool has_descriptors_for_nodes(std::uint64_t nodes);

// The leader of this round needs two for each worker of the world, one for each member, and three
// for each worker of its own. Empty, or one line that says how many it needs, how many it may have,
// and what to do.
std::string descriptor_problem(const core::open_service& wanted, std::uint64_t own_workers);

}  // namespace ddprun
