// The stop of a round alone: when the next round may start.
#include "rendezvous/core/run/round.hpp"
#include "rendezvous/core/run/stop.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::core;
using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr machine_time ordered = machine_time{} + 1000s;
constexpr std::uint64_t step = 7;

round_stop fresh_stop() {
  return round_stop(ordered, step, 10s, false, nullptr);
}

// Members that cannot be reached, and that nothing is known of.
round_memberships of_nobody(std::uint32_t size) {
  round_memberships memberships;
  memberships.open(size);
  return memberships;
}

}  // namespace

TEST_CASE("where no member lets go the orphan limit counts, from the last word") {
  const timers timing;
  round_stop stop = fresh_stop();
  CHECK_FALSE(stop.has_let_go());
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + timing.orphan_limit);
  stop.leased_until(ordered - 3s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + timing.orphan_limit);
  stop.leased_until(ordered + 3s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 3s + timing.orphan_limit);
}

TEST_CASE("a member that lets go breaks the chain in two limits, the leader in one") {
  const timers timing;
  round_stop stop = fresh_stop();
  stop.acknowledge(ordered + 1s, false);
  stop.acknowledge(ordered + 2s, false);
  const duration one = with_margin(timing.isolation_limit);
  const duration two = with_margin(2 * timing.isolation_limit);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 1s + two);
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 1s + one);  // the leader alone
  stop.leased_until(ordered + 4s);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 4s + two);
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 4s + one);
  stop.acknowledge(ordered + 5s, true);
  CHECK(stop.fenced_at(timing, of_nobody(3)) == ordered + 5s + one);
  CHECK(stop.has_let_go());
}

TEST_CASE("of members that this daemon has not heard no tether tells enough") {
  const timers timing;
  round_stop stop = fresh_stop();
  stop.acknowledge(ordered + 1s, false, {{0, 30s}});
  CHECK(stop.fenced_at(timing, of_nobody(1)) == ordered + 1s + with_margin(timing.isolation_limit));
  stop.acknowledge(ordered + 2s, true, {{1, 30s}});
  CHECK(stop.fenced_at(timing, of_nobody(2)) == ordered + 2s + with_margin(timing.isolation_limit));
}

TEST_CASE("the margin is more than 1 % on both sides and a late kill") {
  CHECK(with_margin(100s) == 100s + 2s + late_kill);
}

TEST_CASE("a stop is overdue when the last that was told has had its time") {
  round_stop stop = fresh_stop();
  CHECK(stop.overdue_at() == ordered + 10s);
  stop.tell_late(ordered + 4s);
  CHECK(stop.overdue_at() == ordered + 14s);
  CHECK(stop.ordered_at() == ordered);
}

TEST_CASE("only what was said in a later step has outlived the order") {
  const round_stop stop = fresh_stop();
  CHECK_FALSE(stop.precedes(step - 1));
  CHECK_FALSE(stop.precedes(step));
  CHECK(stop.precedes(step + 1));
  CHECK(round_stop().precedes(1));
}
