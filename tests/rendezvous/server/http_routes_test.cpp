#include "rendezvous/server/http_routes.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <utility>

namespace ddprun::tests {
namespace {

using server::answer_to;
using server::http_views;

// What the routes ask the daemon for.
struct daemon_seen {
  std::size_t runs_from = 0;
  std::string run;
  std::size_t from = 0;
  std::size_t most = 0;
  std::string problem;

  http_views views() {
    http_views made;
    made.runs = [this](std::size_t first) {
      runs_from = first;
      return server::runs_page{first, 0, {}};
    };
    made.run = [this](std::string_view id, std::size_t first,
                      std::size_t limit) -> std::optional<core::run_view> {
      run = id;
      from = first;
      most = limit;
      if (id != "job 1") return std::nullopt;
      core::run_view view;
      view.run_id = run;
      return view;
    };
    made.problem = [this] { return problem; };
    return made;
  }
};

}  // namespace

TEST_CASE("each path has its answer") {
  daemon_seen seen;
  const http_views views = seen.views();
  CHECK(answer_to("/healthz", true, views).body == "ok\n");
  CHECK_FALSE(answer_to("/healthz", true, views).is_json);
  seen.problem = "the disk is full";
  CHECK(answer_to("/healthz?x", true, views).body ==
        "ok, but kept in memory only: the disk is full\n");

  const auto all = answer_to("/api/v1/runs?offset=40", true, views);
  CHECK(all.status == 200);
  CHECK(all.is_json);
  CHECK(seen.runs_from == 40);

  const auto one = answer_to("/api/v1/runs/job%201?offset=100&limit=20&theirs=1", true, views);
  CHECK(one.status == 200);
  CHECK(one.body.find("\"job 1\"") != std::string::npos);
  CHECK(seen.from == 100);
  CHECK(seen.most == 20);
}

TEST_CASE("what cannot be answered says what can") {
  daemon_seen seen;
  const http_views views = seen.views();
  CHECK(answer_to("/api/v1/runs/other", true, views).status == 404);
  CHECK(answer_to("/api/v1/runs/other", true, views).body ==
        "there is no such run; /api/v1/runs lists all\n");
  for (const char* target : {"/", "", "?", "/healthz/", "/api/v1/runsx", "healthz"}) {
    INFO(target);
    CHECK(answer_to(target, true, views).status == 404);
    CHECK(answer_to(target, true, views).body ==
          "not found; there are /healthz and /api/v1/runs\n");
  }
  CHECK(answer_to("/healthz", false, views).status == 405);
  CHECK(answer_to("/nowhere", false, views).status == 404);
  for (const char* query :
       {"offset=", "offset", "offset=-1", "limit=2x", "a=b&limit=99999999999999999999"}) {
    INFO(query);
    const auto answer = answer_to(std::string("/api/v1/runs?") + query, true, views);
    CHECK(answer.status == 400);
    CHECK(answer.body.find(" is not a number\n") != std::string::npos);
  }
}

TEST_CASE("only what shows runs takes time") {
  CHECK(server::is_costly("/api/v1/runs?offset=1"));
  CHECK(server::is_costly("/api/v1/runs/a"));
  CHECK_FALSE(server::is_costly("/healthz"));
  CHECK_FALSE(server::is_costly("/nowhere"));
}

}  // namespace ddprun::tests
