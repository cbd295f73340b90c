// What the next choice waits for, alone.
#include "rendezvous/core/run/choice_wait.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;

namespace {

constexpr time_point start = time_point{} + 1000s;

}  // namespace

TEST_CASE("each loss asks for quiet anew, up to a limit from the first") {
  timers timing;
  timing.settle = 500ms;
  timing.settle_max = 2s;
  choice_wait wait;
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(start);
  wait.wait_for_quiet(timing);
  CHECK(wait.until() == start + 500ms);
  wait.add_loss(start + 400ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until() == start + 900ms);
  wait.add_loss(start + 1900ms);
  wait.wait_for_quiet(timing);
  CHECK(wait.until() == start + 2s);
  CHECK_FALSE(wait.is_over(start + 1999ms));
  CHECK(wait.is_over(start + 2s));

  wait.forget_losses();
  CHECK_FALSE(wait.wants_quiet());
  wait.add_loss(start + 10s);
  wait.wait_for_quiet(timing);
  CHECK(wait.until() == start + 10s + 500ms);
}

TEST_CASE("a wait for words is over when all that were silent have spoken, or at its limit") {
  choice_wait wait;
  wait.wait_for_words(2, start + 2s);
  CHECK(wait.is_for_words());
  CHECK_FALSE(wait.is_over(start));
  CHECK(wait.is_over(start + 2s));
  wait.end_silence_of_one();
  CHECK_FALSE(wait.is_over(start));
  wait.end_silence_of_one();
  CHECK(wait.is_over(start));
}

TEST_CASE("quiet after losses ends a wait for words") {
  choice_wait wait;
  wait.wait_for_words(1, start + 2s);
  wait.end_silence_of_one();
  wait.add_loss(start);
  wait.wait_for_quiet(timers{});
  CHECK_FALSE(wait.is_for_words());
  CHECK_FALSE(wait.is_over(start));
}

TEST_CASE("a choice waits longer when the loop was late") {
  timers timing;
  choice_wait wait;
  wait.add_loss(start);
  wait.wait_for_quiet(timing);
  wait.move_by(3s);
  CHECK(wait.until() == start + 3s + timing.settle);
  wait.wait_for_quiet(timing);
  CHECK(wait.until() == start + 3s + timing.settle);
}
