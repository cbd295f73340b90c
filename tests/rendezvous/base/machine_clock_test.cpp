// A machine's own clock stands still while its loop does.
#include "rendezvous/base/machine_clock.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <type_traits>

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::tests::origin;

// A moment on a clock that never stops cannot be compared with, or converted into, one on a clock
// that does.
static_assert(!std::is_convertible_v<time_point, machine_time>);
static_assert(!std::is_convertible_v<machine_time, time_point>);
static_assert(!std::is_invocable_v<std::less<>, time_point, machine_time>);
static_assert(!std::is_invocable_v<std::minus<>, time_point, machine_time>);

TEST_CASE("a machine's clock goes with real time, less what its loop lost") {
  machine_clock clock;
  clock.set(origin);
  const machine_time began = clock.now();
  CHECK(clock.real(began) == origin);
  clock.set(origin + 5s);
  CHECK(clock.now() - began == 5s);
  clock.lose(3s);
  CHECK(clock.real_now() == origin + 5s);
  CHECK(clock.now() - began == 2s);
  CHECK(clock.real(began + 10s) == origin + 13s);
  CHECK(clock.own(origin + 13s) == began + 10s);
  clock.lose(1s);
  CHECK(clock.real(began + 10s) == origin + 14s);
}
