// What the daemon answers over HTTP: a row for each path, in http_routes.cpp.
//
//   GET /healthz                          200 "ok"
//   GET /api/v1/runs?offset=N             200, JSON: a page of runs: phase, members, why it waits
//   GET /api/v1/runs/ID?offset=N&limit=N  200, JSON: one run with a page of its members
//   anything else                         404, 405 or 400 with one line
//
// An answer is made on the loop that serves the rounds. It is a page, so that it takes a
// millisecond whatever the number of nodes.
//
// Thread rule: that of the views.
#pragma once

#include "rendezvous/core/run/run.hpp"
#include "rendezvous/server/runs_json.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
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

struct http_answer {
  unsigned status = 200;
  bool is_json = false;  // else it is text
  std::string body;
};

// `target` as it stands in the request, query and all. `is_read`: the method is GET or HEAD.
http_answer answer_to(std::string_view target, bool is_read, const http_views& views);

// Does making the answer take so long that one has to keep its distance from the one before?
bool is_costly(std::string_view target);

}  // namespace ddprun::server
