// An HTTP session answers a person, a page or a probe on the daemon's port:
//
//   GET /healthz                          200 "ok"
//   GET /api/v1/runs?offset=N             200, JSON: a page of runs: phase, members, why it waits
//   GET /api/v1/runs/ID?offset=N&limit=N  200, JSON: one run with a page of its members
//   anything else                         404, 405 or 400 with one line
//
// An answer is made on the loop that serves the rounds. It is a page, so that it takes a
// millisecond whatever the number of nodes, and the pace leaves time between two of them.
//
// Requests carry no body worth reading (at most 1 KiB is accepted), and each must arrive, and its
// answer be taken, within ten seconds. A session is in the waiting room `others`, at its end after
// each request and each answer: where there are too many, the one goes that has made no progress
// for longest, with a 503 if that was its first request.
//
// Thread rule: the thread of the socket's executor. It lives by itself until the peer closes.
#pragma once

#include "rendezvous/core/run/run.hpp"
#include "rendezvous/net/types.hpp"
#include "rendezvous/server/runs_json.hpp"
#include "rendezvous/server/waiting_room.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace ddprun::server {

// Called once for each request that asks for it; nothing comes once the daemon is stopping.
struct http_views {
  std::function<runs_page(std::size_t first)> runs;
  std::function<std::optional<core::run_view>(std::string_view id, std::size_t first,
                                              std::size_t most)>
      run;
  std::function<std::string()> problem;  // of the daemon, though it serves; empty: none
};

// When the next answer may be made: all sessions of a daemon share one.
class http_pace {
 public:
  static constexpr std::chrono::milliseconds interval{10};
  time_point next(time_point now);

 private:
  time_point next_{};
};

void serve_http(net::tcp::socket socket, http_views views, std::shared_ptr<http_pace> pace,
                std::shared_ptr<waiting_room> others);

}  // namespace ddprun::server
