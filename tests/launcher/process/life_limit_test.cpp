#include "launcher/process/life_limit.hpp"

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::launcher::life_limit;

namespace {

constexpr time_point origin{std::chrono::hours(1)};
constexpr duration margin = life_limit::margin;

}  // namespace

TEST_CASE("without a beat, and after one that lifts it, there is no limit") {
  life_limit limit;
  CHECK(limit.wait_ms(origin) == -1);
  CHECK_FALSE(limit.is_over(origin + 24h));
  limit.set(origin, 1s);
  limit.lift();
  CHECK(limit.wait_ms(origin) == -1);
  CHECK_FALSE(limit.is_over(origin + 24h));
}

TEST_CASE("a limit that is not moved is over once, a moment after the agent would have acted") {
  life_limit limit;
  limit.set(origin + 8s, 2s);
  CHECK(limit.wait_ms(origin) == 8100);
  CHECK_FALSE(limit.is_over(origin + 8s));
  CHECK(limit.is_over(origin + 8s + margin));
  CHECK_FALSE(limit.is_over(origin + 20s));
  CHECK(limit.wait_ms(origin + 20s) == -1);
}

TEST_CASE("a beat moves the limit, also one that is read late") {
  life_limit limit;
  limit.set(origin + 8s, 2s);
  limit.set(origin + 9s, 2s);
  CHECK_FALSE(limit.is_over(origin + 8s + margin));
  CHECK(limit.is_over(origin + 9s + margin));
}

TEST_CASE("a guardian that stood still waits for a beat, once") {
  life_limit limit;
  limit.set(origin + 8s, 2s);
  const time_point woke = origin + 30s;
  CHECK(limit.wait_ms(woke) == 0);
  CHECK_FALSE(limit.is_over(woke));
  CHECK(limit.wait_ms(woke) == 2000);
  CHECK_FALSE(limit.is_over(woke + 1999ms));
  SECTION("and then acts, however late it is again") {
    CHECK(limit.is_over(woke + 10s));
  }
  SECTION("which moves the limit, and may be late anew") {
    limit.set(woke + 8s, 2s);
    CHECK_FALSE(limit.is_over(woke + 2s));
    CHECK_FALSE(limit.is_over(woke + 20s));
    CHECK(limit.is_over(woke + 22s));
  }
}

TEST_CASE("a limit far away is waited for in parts") {
  life_limit limit;
  limit.set(origin + 24h * 30, 1s);
  CHECK(limit.wait_ms(origin) == 60'000);
}
