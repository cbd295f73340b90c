#include "rendezvous/core/agent/agent_stop.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::shutdown_state;
using ddprun::tests::clock_at;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

namespace {

constexpr time_point now = origin + 3s;
constexpr duration limit = 7s;

}  // namespace

TEST_CASE("the first signal asks, each later one insists, and the newest gives the exit code") {
  shutdown_state out;
  CHECK(out.signal() == 0);
  CHECK(out.take_signal(SIGTERM));
  CHECK(out.exit_code() == 143);
  CHECK_FALSE(out.take_signal(SIGINT));
  CHECK(out.exit_code() == 130);
}

TEST_CASE("a fence ends once") {
  shutdown_state out;
  CHECK_FALSE(out.end_fence());
  out.fence();
  CHECK(out.end_fence());
  CHECK_FALSE(out.end_fence());
}

TEST_CASE("a draining node leaves by itself if no daemon tells it to") {
  const timers timing;
  const duration patience =
      timing.drain_grace + timing.kill_wait + timing.node_timeout + 2 * timing.isolation_limit;
  shutdown_state out;
  out.workers_are_down(machine_origin);  // not asked to leave: nothing
  CHECK_FALSE(out.deadline(clock_at(now), timing, limit, std::nullopt, false));
  out.take_signal(SIGTERM);
  out.drain();
  CHECK_FALSE(out.deadline(clock_at(now), timing, limit, std::nullopt, false));
  out.workers_are_down(machine_origin + 1s);
  out.workers_are_down(machine_origin + 2s);  // counts from the first time
  SECTION("at once where there is none") {
    CHECK(out.deadline(clock_at(now), timing, limit, std::nullopt, false) == now);
  }
  SECTION("soon where one is connected that has never answered") {
    CHECK(out.deadline(clock_at(now), timing, limit, std::nullopt, true) == origin + 1s + limit);
  }
  SECTION("when the last answer is too old, connected or not") {
    CHECK(out.deadline(clock_at(now), timing, limit, origin + 5s, false) == origin + 5s + limit);
    CHECK(out.deadline(clock_at(now), timing, limit, origin + 5s, true) == origin + 5s + limit);
  }
  SECTION("when a daemon that answers has not said close for long") {
    CHECK(out.deadline(clock_at(now), timing, limit, origin + 1h, true) == origin + 1s + patience);
    machine_clock late = clock_at(now);
    late.lose(3s);
    CHECK(out.deadline(late, timing, limit, origin + 1h, true) == origin + 4s + patience);
  }
  SECTION("never where its last word is decided: that is said when the workers are gone") {
    out.leave_with({5, "closed", std::nullopt});
    CHECK_FALSE(out.deadline(clock_at(now), timing, limit, std::nullopt, false));
    REQUIRE(out.leaving());
    CHECK(out.leaving()->exit_code == 5);
  }
}
