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

TEST_CASE("a second stop request is refused, and the first goes on", "[worker]") {
  const worker::stop_request first;
  CHECK_THROWS_WITH(worker::stop_request(),
                    "stop_request: this process has one already, and its signals go to one only; "
                    "end that one first, or give it to the training loop (`stop` of its options), "
                    "which makes its own otherwise");
  REQUIRE(::raise(SIGTERM) == 0);
  CHECK(first.has_come());
}

TEST_CASE("a signal that no program can handle is refused, and nothing is held", "[worker]") {
  struct sigaction ours {};
  ours.sa_handler = SIG_IGN;
  struct sigaction before {};
  REQUIRE(::sigaction(SIGUSR1, &ours, &before) == 0);
  CHECK_THROWS_WITH(worker::stop_request({SIGUSR1, SIGKILL}),
                    "stop_request: signal 9 (Killed) cannot be handled: Invalid argument; name "
                    "others, such as SIGTERM and SIGUSR1");
  struct sigaction now {};
  REQUIRE(::sigaction(SIGUSR1, &before, &now) == 0);
  CHECK(now.sa_handler == SIG_IGN);
  CHECK(!worker::stop_request().has_come());
}

}  // namespace ddprun::tests
