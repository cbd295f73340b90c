// An HTTP session answers a person, a page or a probe on the daemon's port: what http_routes.hpp
// lists. The pace leaves time between two answers that take some.
//
// Requests carry no body worth reading (at most 1 KiB is accepted), and each must arrive, and its
// answer be taken, within ten seconds. A session is one of the evictable peers `others`, and goes
// to their end after each request and each answer: if there are too many, the one that has made no
// progress for longest is closed, with a 503 if that was its first request.
//
// Thread rule: the thread of the socket's executor. It lives by itself until the peer closes.
#pragma once

#include "rendezvous/net/types.hpp"
#include "rendezvous/server/evictable_peers.hpp"
#include "rendezvous/server/http_routes.hpp"

#include <memory>

namespace ddprun::server {

// When the next answer may be made: all sessions of a daemon share one.
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
