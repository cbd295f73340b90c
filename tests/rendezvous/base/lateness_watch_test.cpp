#include "rendezvous/base/lateness_watch.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a loop that stood still is told so at its first input, once, and by how much") {
  lateness_watch watch;
  const time_point start{1h};
  CHECK_FALSE(watch.notice(start));
  watch.expect(start + 1s);
  CHECK_FALSE(watch.notice(start + 500ms));
  CHECK_FALSE(watch.notice(start + 1s + 99ms));
  // Input arrives after a freeze, before the timer's own handler has had its turn.
  CHECK(watch.notice(start + 4s) == duration(3s));
  CHECK_FALSE(watch.notice(start + 4s));
  CHECK_FALSE(watch.notice(start + 4s + 99ms));
  // The loop froze again before it had set its timer again.
  CHECK(watch.notice(start + 6s) == duration(2s));
  watch.expect_nothing();
  CHECK_FALSE(watch.notice(start + 60s));
}
