// The kernel asks a silent peer whether it is still there: the connection of one whose machine has
// vanished is let go of after a while, and not never.
//
// There is no limit for what has been sent and not acknowledged (TCP_USER_TIMEOUT): it would also
// end the connection of a peer that is there and does not read, for which each protocol has a limit
// of its own, and it would put off what is asked of a silent one to the same time.
//
// Thread rule: any.
#pragma once

#include "rendezvous/core/messages/types.hpp"

#include <chrono>

namespace ddprun::net {

// A vanished peer is gone after `idle` and `probes` times `interval`: two minutes. A link that is
// cut for less than a minute costs nothing.
struct keep_alive {
  std::chrono::seconds idle{60};
  std::chrono::seconds interval{15};
  int probes = 4;
};

// For peers that others wait for so long: they are not to be gone before.
keep_alive keep_alive_for(duration node_timeout);

// Of a listening socket: accepted ones inherit it. More seconds than the system takes are its most.
void set_keep_alive(int socket, const keep_alive& limits);

}  // namespace ddprun::net
