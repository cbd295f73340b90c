#include "rendezvous/core/messages/types.hpp"

#include "rendezvous/core/messages/settings.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;

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
