// How workers are stopped and a node shuts down, without an agent.
#include "rendezvous/core/agent/agent_stop.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::local_workers;
using ddprun::core::shutdown_state;
using ddprun::tests::clock_at;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

namespace {

constexpr duration kill_wait = 5s;

local_workers two_workers() {
  local_workers workers;
  workers.start(2);
  return workers;
}

}  // namespace

TEST_CASE("each worker ends once") {
  local_workers workers = two_workers();
  CHECK(workers.living() == 2);
  CHECK(workers.end(1));
  CHECK_FALSE(workers.end(1));
  CHECK_FALSE(workers.end(2));
  CHECK(workers.end(0));
  CHECK(workers.living() == 0);
  CHECK_FALSE(workers.are_asked());
}

TEST_CASE("workers are asked once, and the shortest grace holds") {
  local_workers workers = two_workers();
  CHECK(workers.ask(clock_at(origin), 30s));
  CHECK(workers.deadline() == machine_origin + 30s);
  CHECK_FALSE(workers.ask(clock_at(origin + 1s), 5s));
  CHECK(workers.deadline() == machine_origin + 6s);
  CHECK_FALSE(workers.ask(clock_at(origin + 2s), 60s));
  CHECK(workers.deadline() == machine_origin + 6s);
  CHECK_FALSE(workers.is_grace_over(machine_origin + 6s - 1ms));
  CHECK(workers.is_grace_over(machine_origin + 6s));
  CHECK_FALSE(workers.are_asked_by(origin - 1ms));
  CHECK(workers.are_asked_by(origin));  // the first time counts
}

TEST_CASE("workers are killed once; a later question changes nothing") {
  local_workers workers = two_workers();
  const bool was_asked = GENERATE(false, true);
  if (was_asked) workers.ask(clock_at(origin), 30s);
  CHECK_FALSE(workers.are_killed());
  CHECK(workers.kill(clock_at(origin + 1s), kill_wait));
  CHECK(workers.are_killed());
  CHECK(workers.are_asked_by(origin) == was_asked);
  CHECK(workers.are_asked_by(origin + 1s));
  CHECK_FALSE(workers.is_grace_over(machine_origin + 1h));
  CHECK_FALSE(workers.kill(clock_at(origin + 2s), kill_wait));
  CHECK_FALSE(workers.ask(clock_at(origin + 2s), 1s));
  CHECK(workers.deadline() == machine_origin + 1s + kill_wait);
}

TEST_CASE("a worker that outlives SIGKILL is unkillable until it ends") {
  local_workers workers = two_workers();
  CHECK_FALSE(workers.give_up(machine_origin + 1h));
  workers.kill(clock_at(origin), kill_wait);
  CHECK_FALSE(workers.give_up(machine_origin + kill_wait - 1ms));
  CHECK(workers.unkillable() == 0);
  CHECK(workers.give_up(machine_origin + kill_wait));
  CHECK(workers.unkillable() == 2);
  CHECK_FALSE(workers.deadline());
  CHECK_FALSE(workers.give_up(machine_origin + 1h));
  workers.end(0);
  CHECK(workers.unkillable() == 1);
  workers.end(1);
  CHECK(workers.unkillable() == 0);
}

TEST_CASE("when the last worker has ended no limit runs any more") {
  local_workers workers = two_workers();
  workers.ask(clock_at(origin), 30s);
  const bool is_killed = GENERATE(false, true);
  if (is_killed) workers.kill(clock_at(origin), kill_wait);
  workers.end(0);
  CHECK(workers.deadline());
  workers.end(1);
  CHECK_FALSE(workers.deadline());
  CHECK_FALSE(workers.give_up(machine_origin + 1h));
}

TEST_CASE("workers that ended before anybody asked are taken as asked from then on") {
  local_workers workers = two_workers();
  workers.end(0);
  workers.end(1);
  workers.take_as_asked(origin);
  CHECK(workers.are_asked());
  CHECK_FALSE(workers.are_asked_by(origin - 1ms));
  CHECK_FALSE(workers.deadline());
}

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
