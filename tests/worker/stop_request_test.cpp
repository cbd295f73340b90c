#include "worker/stop_request.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::tests {

TEST_CASE("a stop is asked for by the launcher's signal and by a batch system's", "[worker]") {
  const int number = GENERATE(SIGTERM, SIGUSR1);
  struct sigaction ours {};
  ours.sa_handler = SIG_IGN;
  struct sigaction before {};
  REQUIRE(::sigaction(number, &ours, &before) == 0);
  {
    const worker::stop_request stop;
    CHECK(!stop.has_come());
    REQUIRE(::raise(number) == 0);
    CHECK(stop.has_come());
    CHECK(stop.signal() == number);
  }
  struct sigaction now {};
  REQUIRE(::sigaction(number, &before, &now) == 0);
  CHECK(now.sa_handler == SIG_IGN);
  CHECK(!worker::stop_request().has_come());
}

TEST_CASE("SIGTERM takes precedence over other signals", "[worker]") {
  const worker::stop_request stop;
  REQUIRE(::raise(SIGTERM) == 0);
  REQUIRE(::raise(SIGUSR1) == 0);
  CHECK(stop.signal() == SIGTERM);
}

}  // namespace ddprun::tests
