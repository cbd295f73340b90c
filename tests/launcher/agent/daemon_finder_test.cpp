// Which daemon a node dials: its own, or the one that holds the run at one of several ports.
#include "launcher/agent/daemon_finder.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "tests/support/answering_port.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/patience.hpp"

#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::answering_port;

namespace {

const std::string holds_it = "HTTP/1.1 200 OK\r\n\r\n";
const std::string holds_others = "HTTP/1.1 404 Not Found\r\n\r\n";

struct finding {
  explicit finding(daemon_search search, duration limit = tests::patience) {
    search.opened_by.run_id = "job1";
    finder.emplace(io.get_executor(), thread, std::move(search), limit,
                   [this](note_level, const std::string& text) { lines.push_back(text); });
  }
  ~finding() {
    bool is_closed = false;
    finder->embedded().close({}, [&] { is_closed = true; });
    CHECK(tests::run_until(io, [&] { return is_closed; }));
    finder.reset();
  }
  void begin() {
    finder->find([this](daemon_place place) { found = std::move(place); });
  }
  daemon_place find() {
    begin();
    REQUIRE(tests::run_until(io, [this] { return found.has_value(); }));
    return *found;
  }

  boost::asio::io_context io{1};
  socket_thread thread;
  std::vector<std::string> lines;
  std::optional<daemon_finder> finder;
  std::optional<daemon_place> found;
};

// Another node holds the daemon, at one of these ports.
daemon_search elsewhere(std::vector<std::uint16_t> ports) {
  daemon_search search;
  search.endpoint = {"127.0.0.1", ports.front()};
  search.more_ports.assign(ports.begin() + 1, ports.end());
  search.embed = embed_policy::never;
  return search;
}

}  // namespace

TEST_CASE("a node that opens no daemon dials the port at which its run was found") {
  boost::asio::io_context others;
  const auto dials = [&](finding& node) {
    node.begin();
    return tests::run_until(node.io, [&] {
      tests::run_ready(others);
      return node.found.has_value();
    });
  };
  answering_port first(others, holds_others);
  answering_port second(others, holds_it);
  finding node(elsewhere({first.port(), second.port()}));
  CHECK(node.finder->place().host.empty());
  REQUIRE(dials(node));
  CHECK(node.found->problem.empty());
  CHECK(node.found->host == "127.0.0.1");
  CHECK(node.found->port == second.port());
  CHECK(node.finder->place().port == second.port());
  CHECK_FALSE(node.finder->embedded().hosts());
  CHECK(second.request().find("/api/v1/runs/job1") != std::string::npos);
}

TEST_CASE("a run that is at no port is a problem, and its exit code says so") {
  boost::asio::io_context others;
  const tests::silent_port first(others);
  const tests::silent_port second(others);
  finding node(elsewhere({first.port(), second.port()}), duration::zero());
  const daemon_place place = node.find();
  CHECK(place.problem.starts_with(
      "run job1 was not found at any port of 127.0.0.1 within join_timeout: "));
  CHECK(place.exit_code == unmet_exit_code);
  CHECK(node.finder->place().host.empty());
}

TEST_CASE("after a stop no place is found") {
  boost::asio::io_context others;
  answering_port silent(others, "");
  finding node(elsewhere({silent.port(), silent.port()}));
  node.begin();
  tests::run_ready(node.io);
  node.finder->stop();
  tests::run_ready(node.io);
  CHECK_FALSE(node.found);
}

TEST_CASE("a single port is not searched, even if it is taken") {
  finding node(elsewhere({4711}));
  const daemon_place place = node.find();
  CHECK(place.problem.empty());
  CHECK(place.port == 4711);
}

TEST_CASE("a standalone node has the daemon in its own process, also for a later attempt") {
  daemon_search search;
  search.standalone = true;
  search.endpoint = {"127.0.0.1", 0};
  finding node(std::move(search));
  const daemon_place place = node.find();
  CHECK(place.problem.empty());
  CHECK(place.port != 0);
  CHECK(node.finder->embedded().hosts());
  std::optional<daemon_place> again;
  node.finder->find_again({}, std::nullopt, 0, [&](daemon_place found) { again = found; });
  REQUIRE(tests::run_until(node.io, [&] { return again.has_value(); }));
  CHECK(again->port == place.port);
  CHECK(node.finder->place().port == place.port);
}
