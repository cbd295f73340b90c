// The table of a machine's timers.
#include "rendezvous/base/machine_timers.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <optional>
#include <string>

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::tests::clock_at;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

namespace {

struct ticking {
  machine_clock clock = clock_at(origin);
  std::optional<machine_time> own;
  std::optional<time_point> real;
  std::string done;

  void on_own() {
    done += "own ";
    own.reset();
    real = origin;  // arms the row that follows
  }
  void on_real() {
    done += "real ";
    real.reset();
  }
};

constexpr machine_timer<ticking> table[] = {
    {[](const ticking& one) -> timer_moment { return one.own; }, &ticking::on_own},
    {[](const ticking& one) -> timer_moment { return one.real; }, &ticking::on_real},
    {[](const ticking&) -> timer_moment { return origin + 60s; }},
    {[](const ticking&) -> timer_moment { return std::nullopt; }},
};

void pass(ticking& machine, time_point now) {
  machine.clock.set(now);
  for (const auto& one : table)
    do_if_due(machine, one);
}

}  // namespace

TEST_CASE("what is due next is the earliest row, and a loop that stood still moves its own alone") {
  ticking machine;
  CHECK(next_due(machine, table) == origin + 60s);
  machine.own = machine_origin + 10s;
  CHECK(next_due(machine, table) == origin + 10s);
  machine.clock.lose(3s);
  CHECK(next_due(machine, table) == origin + 13s);
  machine.real = origin + 12s;
  CHECK(next_due(machine, table) == origin + 12s);
  machine.clock.lose(3s);
  CHECK(next_due(machine, table) == origin + 12s);
}

TEST_CASE(
    "a row is done when it is due, in the order of the table, and may arm those that follow") {
  ticking machine;
  machine.own = machine_origin + 10s;
  pass(machine, origin + 10s - 1ms);
  CHECK(machine.done.empty());
  machine.clock.lose(1s);
  pass(machine, origin + 10s);
  CHECK(machine.done.empty());
  pass(machine, origin + 11s);
  CHECK(machine.done == "own real ");
  pass(machine, origin + 99s);
  CHECK(machine.done == "own real ");
}
