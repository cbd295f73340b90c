// A daemon that runs out of memory at each step in turn: a peer is answered or closed, never left
// waiting, and the next one is served. Messages of agents are not tested, because the JSON library
// needs memory to destroy a document, so the process may end there.
#include "tests/no_memory/without_memory.hpp"
#include "tests/support/daemon_fixture.hpp"

#include <string>

using namespace ddprun;
using fixture = tests::daemon_fixture;
using tests::failing_allocations;
using tests::raw_peer;
using tests::run_until;

namespace {

const std::string http_request = "GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n";

server::server_options patient() {
  server::server_options options;
  // No time limit may close the peer instead.
  options.daemon.hello_limit = std::chrono::hours(1);
  return options;
}

bool answered_or_closed(fixture& f, raw_peer& peer) {
  return run_until(f.io, [&] { return !peer.heard().empty() || peer.closed(); });
}

bool is_served(fixture& f) {
  raw_peer peer(f.io, f.port);
  peer.say(http_request);
  return f.hears(peer, "200 OK");
}

}  // namespace

TEST_CASE("memory that ends while a peer is accepted costs that peer only") {
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{2}, failing_allocations::all);
  fixture f(patient());
  tests::fail_each_allocation(count, [&](std::size_t before) {
    raw_peer peer(f.io, f.port);
    const bool has_failed = tests::without_memory(f.io, before, count);
    peer.say(http_request);
    REQUIRE(answered_or_closed(f, peer));
    REQUIRE(is_served(f));
    return has_failed;
  });
}

TEST_CASE("memory that ends while a peer's words are taken costs that peer only") {
  const std::string words = GENERATE(as<std::string>{}, http_request, "\x16\x03\x01");
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{2}, failing_allocations::all);
  fixture f(patient());
  CAPTURE(words);
  tests::fail_each_allocation(count, [&](std::size_t before) {
    raw_peer peer(f.io, f.port);
    tests::run_ready(f.io);
    peer.say(words);
    const bool has_failed = tests::without_memory(f.io, before, count);
    REQUIRE(answered_or_closed(f, peer));
    REQUIRE(is_served(f));
    return has_failed;
  });
}
