#include "rendezvous/net/keep_alive.hpp"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ddprun::net {
namespace {

constexpr std::chrono::seconds idle_max{32767};  // Linux: MAX_TCP_KEEPIDLE

// Failure is ignored: without keep-alive a vanished peer is only noticed later.
void set(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace

keep_alive keep_alive_for(duration node_timeout) {
  keep_alive limits;
  limits.idle = std::max(limits.idle, std::chrono::ceil<std::chrono::seconds>(node_timeout));
  return limits;
}

void set_keep_alive(int socket, const keep_alive& limits) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(std::min(limits.idle, idle_max).count()));
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(limits.interval.count()));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, limits.probes);
}

}  // namespace ddprun::net
