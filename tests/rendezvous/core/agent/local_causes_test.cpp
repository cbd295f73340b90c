#include "rendezvous/core/agent/local_round.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::local_causes;
using ddprun::core::unclear_ends;
using ddprun::tests::clock_at;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

namespace {

cause exit_with(int code, std::string tail = {}) {
  cause value;
  value.code = code;
  value.tail = std::move(tail);
  return value;
}

}  // namespace

TEST_CASE("the likeliest root cause stands first, and it alone has a tail") {
  local_causes causes;
  CHECK(causes.empty());
  CHECK(causes.add(exit_with(2, "second"), origin + 2s));
  CHECK(causes.add(exit_with(3, "third"), origin + 3s));
  CHECK(causes.add(exit_with(1, "first"), origin + 1s));
  const auto told = causes.tell(1, origin + 10s);
  REQUIRE(told.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(told[i].code == i + 1);
    CHECK(told[i].age == 10s - (i + 1) * 1s);
  }
  CHECK(told[0].tail == "first");
  CHECK(told[1].tail.empty());
  CHECK(told[2].tail.empty());
}

TEST_CASE("of more causes than may be told the least likely go") {
  local_causes causes;
  for (int i = 0; i < static_cast<int>(causes_max); ++i)
    CHECK(causes.add(exit_with(10 + i), origin + i * 1s));
  CHECK_FALSE(causes.add(exit_with(99), origin + 1h));
  CHECK(causes.add(exit_with(1), origin - 1s));
  const auto told = causes.tell(1, origin + 1h);
  REQUIRE(told.size() == causes_max);
  CHECK(told.front().code == 1);
  CHECK(told.back().code == 10 + static_cast<int>(causes_max) - 2);
}

TEST_CASE("a tail is told until a status with it was answered, on each connection") {
  local_causes causes;
  causes.add(exit_with(1, "Traceback"), origin);
  const auto has_tail = [&](std::uint64_t seq) {
    return !causes.tell(seq, origin).front().tail.empty();
  };
  CHECK(has_tail(5));
  causes.acked(4);
  CHECK(has_tail(6));
  causes.acked(5);
  CHECK_FALSE(has_tail(7));
  SECTION("a new connection") {
    causes.connected();
    causes.acked(7);  // says nothing about causes that were not in that status
    CHECK(has_tail(8));
  }
  SECTION("a likelier cause") {
    causes.add(exit_with(2, "another"), origin - 1s);
    CHECK(has_tail(8));
    causes.acked(8);
    CHECK_FALSE(has_tail(9));
  }
}

TEST_CASE("a tail is cut to its end, and never inside of a character") {
  local_causes causes;
  causes.add(exit_with(1, "\xc3\xa4" + std::string(tail_bytes_max - 1, 'x')), origin);
  CHECK(causes.tell(1, origin).front().tail == std::string(tail_bytes_max - 1, 'x'));
}

TEST_CASE("ends that are not clear wait from the first one on, and are taken with their ages") {
  unclear_ends ends;
  CHECK(ends.empty());
  cause first = exit_with(SIGTERM);
  first.age = 2s;
  ends.add(first, clock_at(origin));
  ends.add(exit_with(SIGTERM), clock_at(origin + 50ms));
  CHECK_FALSE(ends.empty());
  CHECK(ends.deadline() == machine_origin + core::own_signal_wait);
  const auto taken = ends.take(origin + 100ms);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].age == 2100ms);
  CHECK(taken[1].age == 50ms);
  CHECK(ends.empty());
  CHECK(ends.take(origin).empty());
}
