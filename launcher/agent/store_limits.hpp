// Says before a round starts whether this process may open enough descriptors to serve it.
//
// Thread rule: may be called from any thread.
#pragma once

#include "rendezvous/core/member.hpp"

#include <cstdint>
#include <string>

namespace ddprun {

// Makes room for `needed` descriptors, raising the soft limit towards the hard one only as far as
// that takes: the workers inherit it. False: the hard limit is below.
bool allow_descriptors(std::uint64_t needed);

// Makes room for what the leader of this round needs: two for each worker of the world, one for
// each member. Empty, or one line that says how many it needs, how many it may have, and what to
// do.
std::string descriptor_problem(const core::open_service& wanted);

}  // namespace ddprun
