// What the next choice waits for, alone.
#include "rendezvous/core/run/gather.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

TEST_CASE("each loss asks for quiet anew, up to a limit from the first") {
  timers timing;
  timing.settle = 500ms;
  timing.settle_max = 2s;
  settle_timer wait;
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(machine_origin);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 500ms);
  wait.add_loss(machine_origin + 400ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 900ms);
  wait.add_loss(machine_origin + 1900ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 2s);
  CHECK_FALSE(wait.is_over(machine_origin + 1999ms));
  CHECK(wait.is_over(machine_origin + 2s));

  wait.forget_losses();
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(machine_origin + 10s);
  wait.wait_for_quiet(timing);
  CHECK(wait.until(machine_origin) == machine_origin + 10s + 500ms);
}

TEST_CASE("a wait for words is over when all that were silent have spoken, or at its limit") {
  settle_timer wait;
  wait.wait_for_words(2, machine_origin + 2s);
  CHECK(wait.is_for_words());
  CHECK_FALSE(wait.is_over(machine_origin));
  CHECK(wait.is_over(machine_origin + 2s));
  wait.end_silence_of_one();
  CHECK_FALSE(wait.is_over(machine_origin));
  wait.end_silence_of_one();
  CHECK(wait.is_over(machine_origin));
}

TEST_CASE("quiet after losses ends a wait for words") {
  settle_timer wait;
  wait.wait_for_words(1, machine_origin + 2s);
  wait.end_silence_of_one();
  wait.add_loss(machine_origin);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_for_words());
  CHECK_FALSE(wait.is_over(machine_origin));
}

TEST_CASE("a pause is waited for whatever is lost or said meanwhile") {
  settle_timer wait;
  wait.pause_until(machine_origin + 4s);
  wait.wait_for_pause(machine_origin);
  CHECK_FALSE(wait.is_over(machine_origin));
  CHECK(wait.until(machine_origin) == machine_origin + 4s);
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin));
  wait.add_loss(machine_origin + 1s);
  wait.wait_for_quiet(timers{});
  CHECK(wait.until(machine_origin + 1s) == machine_origin + 1500ms);
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin + 1s));
  CHECK(wait.is_quiet_in_pause(machine_origin + 1500ms));
  CHECK_FALSE(wait.is_over(machine_origin + 1500ms));
  wait.forget_losses();
  CHECK_FALSE(wait.is_quiet_in_pause(machine_origin + 2s));
  CHECK(wait.until(machine_origin + 2s) == machine_origin + 4s);
  CHECK_FALSE(wait.is_over(machine_origin + 3999ms));
  CHECK(wait.is_over(machine_origin + 4s));
  wait.pause_until(machine_origin + 9s);
  wait.end_pause();
  CHECK(wait.is_over(machine_origin + 5s));
}

TEST_CASE("quiet that is asked for late outlasts the pause") {
  settle_timer wait;
  wait.pause_until(machine_origin + 1s);
  wait.wait_for_pause(machine_origin);
  wait.add_loss(machine_origin + 900ms);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_over(machine_origin + 1s));
  CHECK(wait.until(machine_origin + 1s) == machine_origin + 1400ms);
  CHECK(wait.is_over(machine_origin + 1400ms));
}
