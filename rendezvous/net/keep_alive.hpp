// TCP keep-alive: the kernel probes a silent peer, so that the connection of a machine that has
// vanished is closed after a while instead of never.
//
// TCP_USER_TIMEOUT is not set. It would also end the connection of a peer that is alive but does
// not read, for which each protocol has its own limit, and it would delay the probes of a silent
// peer by the same time.
//
// Thread rule: any.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"

#include <chrono>

namespace ddprun::net {

// A vanished peer is noticed after `idle` plus `probes` times `interval`, two minutes. A link that
// is cut for less than a minute loses no connection.
struct keep_alive {
  std::chrono::seconds idle{60};
  std::chrono::seconds interval{15};
  int probes = 4;
};

// Limits that do not end a connection before the node timeout has passed.
keep_alive keep_alive_for(duration node_timeout);

// Sets the limits of a listening socket, from which accepted ones inherit them. Larger values than
// the system accepts are cut to its maximum.
void set_keep_alive(int socket, const keep_alive& limits);

}  // namespace ddprun::net
