#include "rendezvous/base/time.hpp"

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;

TEST_CASE("durations read as a person would say them") {
  CHECK(ddprun::to_text(0ms) == "0 ms");
  CHECK(ddprun::to_text(350ms) == "350 ms");
  CHECK(ddprun::to_text(1500ms) == "1.5 s");
  CHECK(ddprun::to_text(2000ms) == "2 s");
  CHECK(ddprun::to_text(12s) == "12 s");
  CHECK(ddprun::to_text(125s) == "2 min 5 s");
  CHECK(ddprun::to_text(600s) == "10 min");
}
