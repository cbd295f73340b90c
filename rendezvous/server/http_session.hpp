// An HTTP session answers a person, a dashboard or a probe on the daemon's port (http_routes.hpp).
// The pace leaves time for the rounds between two costly answers.
//
// A request may have a body of at most 1 KiB, which is ignored. Each request must arrive, and its
// answer be read, within ten seconds. A session is one of the evictable peers `others`, and becomes
// the youngest after each request and each answer: if there are too many, the one without progress
// for longest is closed, with a 503 if that was its first request.
//
// Thread rule: the thread of the socket's executor. The session keeps itself alive until the peer
// closes.
#pragma once

#include "rendezvous/net/net_types.hpp"
#include "rendezvous/server/evictable_peers.hpp"
#include "rendezvous/server/http_routes.hpp"

#include <memory>

namespace ddprun::server {

// Says when the next costly answer may be made; all sessions of a daemon share one.
class http_pace {
 public:
  static constexpr std::chrono::milliseconds interval{10};
  time_point next(time_point now);

 private:
  time_point next_{};
};

void serve_http(net::tcp::socket socket, http_views views, std::shared_ptr<http_pace> pace,
                std::shared_ptr<evictable_peers> others);

}  // namespace ddprun::server
