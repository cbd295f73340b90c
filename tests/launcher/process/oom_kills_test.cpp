#include "launcher/process/oom_kills.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;
using namespace std::chrono_literals;

TEST_CASE("only what the kernel has killed within the last seconds counts") {
  const recent_oom_kills::clock::time_point start{1h};
  static std::uint64_t kills;
  kills = 5;
  const auto count = +[] { return std::optional<std::uint64_t>(kills); };
  recent_oom_kills recent;
  CHECK_FALSE(recent.is_any(9));
  recent.notice(start, count);
  CHECK_FALSE(recent.is_any(5));
  CHECK(recent.is_any(6));
  kills = 6;
  recent.notice(start + 500ms, count);
  CHECK(recent.is_any(6));
  // Noticed just before the worker's end was.
  recent.notice(start + 1s, count);
  CHECK(recent.is_any(6));
  recent.notice(start + 2s, count);
  CHECK_FALSE(recent.is_any(6));
  CHECK_FALSE(recent.is_any(std::nullopt));
}
