#include "worker/training/decisions.hpp"

#include "tests/support/catch.hpp"

#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

constexpr loop_decision goes_on{}, saves{true, false}, stops{true, true};

loop_moment step(std::uint64_t number) {
  return {number, 1, false, false};
}

loop_moment end_of(std::uint64_t epoch, bool is_last = false) {
  return {10 * epoch, epoch, true, is_last};
}

loop_decisions made(const save_times& when, std::uint32_t rank = 0) {
  return {when, 1, rank, time_point()};
}

}  // namespace

TEST_CASE("a loop saves after each so many steps", "[training]") {
  auto deciding = made({4, 0, 0ms});
  CHECK(deciding.decide(step(3), {}, {}) == goes_on);
  CHECK(deciding.decide(step(4), {}, {}) == saves);
  CHECK(deciding.decide(step(5), {}, {}) == goes_on);
  CHECK(deciding.decide({20, 2, true, false}, {}, {}) == saves);
  CHECK(deciding.decide({10, 1, true, false}, {}, {}) == goes_on);
}

TEST_CASE("a loop saves after each so many epochs, and at the end of all", "[training]") {
  auto deciding = made({0, 3, 0ms});
  CHECK(deciding.decide(step(3), {}, {}) == goes_on);
  CHECK(deciding.decide(end_of(2), {}, {}) == goes_on);
  CHECK(deciding.decide(end_of(3), {}, {}) == saves);
  CHECK(deciding.decide(end_of(4, true), {}, {}) == saves);
  auto never = made({0, 0, 0ms});
  CHECK(never.decide(end_of(3), {}, {}) == goes_on);
  CHECK(never.decide(end_of(4, true), {}, {}) == saves);
}

TEST_CASE("rank 0's clock says that a save is due, until there is one", "[training]") {
  const time_point start;
  auto first = made({0, 0, 60s});
  const auto second = made({0, 0, 60s}, 1);
  CHECK(first.word(false, start + 59s) == loop_word{false, false});
  CHECK(first.word(false, start + 60s) == loop_word{false, true});
  CHECK(second.word(false, start + 90s) == loop_word{false, false});
  CHECK(first.decide(step(7), {false, true}, start + 61s) == saves);
  CHECK(first.word(false, start + 120s) == loop_word{false, false});
  CHECK(first.word(false, start + 121s) == loop_word{false, true});
  CHECK(made({}).word(false, start + 1000h) == loop_word{false, false});  // no interval is set
}

TEST_CASE("ranks whose clocks differ decide alike", "[training]") {
  const save_times when{0, 0, 60s};
  loop_decisions first(when, 1, 0, time_point());
  loop_decisions second(when, 1, 1, time_point() + 1000h);  // with a clock that goes backwards
  std::size_t saved = 0;
  for (std::uint64_t at = 1; at <= 12; ++at) {
    const time_point here = time_point() + at * 10s, there = time_point() + 1000h - at * 1h;
    const loop_word mine = first.word(false, here), theirs = second.word(false, there);
    const loop_word of_all{false, mine.save_is_due || theirs.save_is_due};
    const auto made = first.decide(step(at), of_all, here);
    CHECK(second.decide(step(at), of_all, there) == made);
    saved += made.saves;
  }
  CHECK(saved == 2);
}

TEST_CASE("whatever is saved, the interval begins anew", "[training]") {
  auto deciding = made({5, 0, 60s});
  CHECK(deciding.decide(step(5), {}, time_point() + 50s) == saves);
  CHECK(deciding.word(false, time_point() + 100s) == loop_word{false, false});
}

TEST_CASE("a stop that one rank has heard of saves and stops", "[training]") {
  auto deciding = made({0, 0, 0ms});
  CHECK(deciding.word(true, {}) == loop_word{true, false});
  CHECK(deciding.decide(step(1), {true, false}, {}) == stops);
  CHECK(deciding.decide(end_of(1), {true, false}, {}) == stops);
  // After the end of training there is nothing left to stop.
  CHECK(deciding.decide(end_of(2, true), {true, false}, {}) == saves);
}

TEST_CASE("ranks put their words together after each so many steps", "[training]") {
  const loop_decisions each({}, 1, 0, {});
  const loop_decisions third({}, 3, 0, {});
  CHECK(each.asks(step(1)));
  CHECK(!third.asks(step(1)));
  CHECK(third.asks(step(3)));
  // At the end of an epoch they combine them after its end.
  CHECK(!each.asks(end_of(1)));
  CHECK_THROWS_WITH(loop_decisions({}, 0, 0, {}),
                    "loop_decisions: ask_interval is 0, and must be at least 1");
}

}  // namespace ddprun::tests
