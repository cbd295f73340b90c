// The daemon's HTTP answers; http_routes.cpp has a row for each path.
//
//   GET /healthz                          200 "ok"
//   GET /api/v1/runs?offset=N             200, JSON: a page of runs: phase, members, why it waits
//   GET /api/v1/runs/ID?offset=N&limit=N  200, JSON: one run with a page of its members
//   anything else                         404, 405 or 400 with one line
//
// Answers are made on the loop that serves the rounds, so each is one page, which takes about a
// millisecond however many nodes there are.
//
// Thread rule: the thread of the views.
#pragma once

#include "rendezvous/core/run/run_machine.hpp"
#include "rendezvous/server/runs_json.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::server {

// Each is called once for a request that needs it, and not while the daemon is stopping.
struct http_views {
  std::function<runs_page(std::size_t first)> runs;
  std::function<std::optional<core::run_view>(std::string_view id, std::size_t first,
                                              std::size_t most)>
      run;
  std::function<std::string()> problem;  // what limits the daemon; empty: nothing
};

struct http_answer {
  unsigned status = 200;
  bool is_json = false;  // otherwise plain text
  std::string body;
};

// `target` is the request's, with its query. `is_read`: the method is GET or HEAD.
http_answer answer_to(std::string_view target, bool is_read, const http_views& views);

// True if the answer takes long enough to make that answers have to be spaced out.
bool is_costly(std::string_view target);

}  // namespace ddprun::server
