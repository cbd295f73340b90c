// An HTTP session answers a person, a page or a probe on the daemon's port:
//
//   GET /healthz       200 "ok"
//   GET /api/v1/runs   200, JSON: every run with its phase, its members, and why it waits
//   anything else      404, 405 or 400 with one line
//
// Requests carry no body worth reading (at most 1 KiB is accepted), and each must arrive, and its
// answer be taken, within ten seconds.
//
// Thread rule: the thread of the socket's executor. It lives by itself until the peer closes.
#pragma once

#include "rendezvous/core/run.hpp"
#include "rendezvous/net/types.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::server {

// Called once for each request that asks for the runs; none when the daemon is stopping.
using runs_function = std::function<std::vector<core::run_view>()>;

// `ended` is called when the session is over, from the loop.
void serve_http(net::tcp::socket socket, runs_function runs, std::function<void()> ended);

// The body of /api/v1/runs.
std::string runs_json(const std::vector<core::run_view>& runs);

}  // namespace ddprun::server
