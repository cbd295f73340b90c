// A daemon that serves more runs, one after the other, than it can hold at a time.
#include "tests/support/daemon_fixture.hpp"

#include <memory>

using namespace ddprun;
using tests::raw_peer;

namespace {

server::server_options at_most(std::size_t runs) {
  server::server_options options;
  options.daemon.runs_max = runs;
  return options;
}

struct full_daemon : tests::daemon_fixture {
  explicit full_daemon(std::size_t runs_max) : daemon_fixture(at_most(runs_max)) {}

  std::unique_ptr<raw_peer> join(const std::string& run) {
    auto peer = std::make_unique<raw_peer>(io, port);
    peer->say(R"({"type":"hello","protocol":4,"run_id":")" + run + R"(","session":")" +
              std::string(32, '7') +
              R"(","node":"me","settings":{"nodes_min":1,"nodes_max":1,)"
              R"("timing":{"node_timeout_us":3600000000}}})"
              "\n");
    return peer;
  }

  // Plays a run from its hello to its goodbye, which the daemon has read when this returns.
  void play(const std::string& run) {
    const auto peer = join(run);
    REQUIRE(hears(*peer, R"("phase":"prepare")"));
    const std::string key = R"("instance":")";
    const std::size_t at = peer->heard().rfind(key) + key.size();
    const std::string instance = peer->heard().substr(at, peer->heard().find('"', at) - at);
    const std::string status = R"(,"instance":")" + instance + R"(","round":1,"phase":")";
    peer->say(R"({"type":"status","seq":1)" + status +
              "preparing\",\"service_port\":4000,\"master_port\":4000}\n");
    REQUIRE(hears(*peer, R"("phase":"run")"));
    peer->say(R"({"type":"status","seq":2)" + status + "succeeded\"}\n");
    REQUIRE(hears(*peer, R"("phase":"close")"));
    peer->say(R"({"type":"goodbye","session":")" + std::string(32, '7') + "\"}\n");
    REQUIRE(closes(*peer));
  }
};

}  // namespace

TEST_CASE("finished runs are kept, and make no new one refused") {
  full_daemon f(3);
  const auto living = f.join("alive");
  REQUIRE(f.hears(*living, R"("phase":"prepare")"));
  for (int number = 0; number < 10; ++number)
    f.play("sweep-" + std::to_string(number));
  // The newest runs are still known: an agent that comes late is told how they ended.
  const auto late = f.join("sweep-9");
  REQUIRE(f.hears(*late, R"("type":"desired")"));
  CHECK_FALSE(living->closed());
}

TEST_CASE("runs that have not ended are the most that a daemon holds") {
  full_daemon f(2);
  const auto one = f.join("one");
  const auto two = f.join("two");
  REQUIRE(f.hears(*one, R"("phase":"prepare")"));
  REQUIRE(f.hears(*two, R"("phase":"prepare")"));
  const auto three = f.join("three");
  CHECK(f.hears(*three,
                "this daemon already holds 2 runs that have not ended: start another daemon"));
  CHECK(f.closes(*three));
}
