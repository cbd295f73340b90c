#include "rendezvous/net/keep_alive.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ddprun::net {
namespace {

// Not vital: without it a vanished peer is there for longer.
void set(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace

void set_keep_alive(int socket, const keep_alive& limits) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(limits.idle.count()));
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(limits.interval.count()));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, limits.probes);
}

}  // namespace ddprun::net
