#include "rendezvous/base/log_limit.hpp"

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using ddprun::log_limit;

TEST_CASE("a storm of lines becomes some, then one each interval, and tells what is missing") {
  log_limit limit;
  const ddprun::time_point start{1h};
  int written = 0;
  for (int line = 0; line < 1000; ++line) {
    if (limit.admit("stranger", start + line * 1ms)) ++written;
  }
  CHECK(written == log_limit::lines_at_once);
  CHECK_FALSE(limit.admit("stranger", start + log_limit::interval - 1ms));
  CHECK(limit.admit("stranger", start + log_limit::interval) ==
        "stranger; 981 lines like it were left out");
  CHECK_FALSE(limit.admit("stranger", start + log_limit::interval));
  CHECK(limit.admit("stranger", start + 2 * log_limit::interval) ==
        "stranger; 1 lines like it were left out");
}

TEST_CASE("lines that come seldom are all written") {
  log_limit limit;
  for (int line = 0; line < 100; ++line) {
    CHECK(limit.admit("stranger", ddprun::time_point{1h} + line * log_limit::interval) ==
          "stranger");
  }
}
