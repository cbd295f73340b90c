#include "rendezvous/core/types.hpp"

#include "rendezvous/core/settings.hpp"
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

TEST_CASE("a session is written as 32 hexadecimal digits") {
  CHECK(to_string(ddprun::session_id{1, 0xabcdef}) == "00000000000000010000000000abcdef");
}

TEST_CASE("settings name the first difference") {
  ddprun::run_settings here;
  ddprun::run_settings there;
  CHECK(first_difference(here, there).empty());
  there.nodes_max = 4;
  CHECK(first_difference(here, there) == "nnodes is 1:1 here and 1:4 on the others");
  there = here;
  there.timing.settle = 250ms;
  CHECK(first_difference(here, there) == "settle is 0.5 here and 0.25 on the others");
}

TEST_CASE("timers follow from the node timeout") {
  const ddprun::timers quick = ddprun::timers_for(3s);
  CHECK(quick.heartbeat_interval == 300ms);
  CHECK(quick.isolation_limit == 2400ms);
  CHECK(quick.recovery_window == 3s);
  CHECK(ddprun::timers_for(60s).heartbeat_interval == 1s);
}
