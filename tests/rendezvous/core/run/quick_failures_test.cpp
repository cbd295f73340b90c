// Rounds in a row that fail soon after their origin, alone.
#include "rendezvous/core/run/quick_failures.hpp"

#include "rendezvous/core/run/round_age.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

namespace {

cause failed(int code, const std::string& text = {}, std::uint32_t rank = 0) {
  cause why;
  why.kind = cause_class::exit;
  why.code = code;
  why.text = text;
  why.rank = rank;
  return why;
}

cause of_kind(cause_class kind, int code) {
  cause why;
  why.kind = kind;
  why.code = code;
  return why;
}

}  // namespace

TEST_CASE("two failures are the same by code and text, on whatever rank") {
  CHECK(is_same_failure(failed(1, "no module x", 0), failed(1, "no module x", 3)));
  CHECK(is_same_failure(failed(3), failed(3)));
  CHECK_FALSE(is_same_failure(failed(3), failed(4)));
  CHECK_FALSE(is_same_failure(failed(1, "no module x"), failed(1, "no module y")));
  CHECK_FALSE(is_same_failure(failed(9), of_kind(cause_class::signal, 9)));
  CHECK(is_same_failure(of_kind(cause_class::signal, SIGSEGV),
                        of_kind(cause_class::signal, SIGSEGV)));
}

TEST_CASE("words with digits are no difference: a step, an address, a process") {
  CHECK(is_same_failure(failed(1, "loss is NaN in step 12 (0x7ffe01, tmp7ab)"),
                        failed(1, "loss is NaN in step 9999 (0x55c0, tmp0)")));
  CHECK_FALSE(is_same_failure(failed(1, "step 1"), failed(1, "epoch 1")));
  CHECK_FALSE(is_same_failure(failed(1, "step 1"), failed(1, "step 1 failed")));
}

TEST_CASE("an exception is the same whether its worker had ended or was still on its way out") {
  cause stopped = failed(0, "loss is NaN");
  stopped.kind = cause_class::signal;
  stopped.code = SIGTERM;
  stopped.by_our_stop = stopped.was_failing = true;
  CHECK(is_failure_of_its_own(stopped));
  CHECK(is_same_failure(stopped, failed(1, "loss is NaN")));
}

TEST_CASE("an effect, our own stop, a lost node and a drain say nothing of what fails") {
  cause effect = failed(1, "Connection closed by peer");
  effect.is_secondary = true;
  cause stopped = of_kind(cause_class::signal, SIGTERM);
  stopped.by_our_stop = true;
  for (const cause& one :
       {effect, stopped, of_kind(cause_class::node_lost, 0), of_kind(cause_class::drain, 15)}) {
    CHECK_FALSE(is_failure_of_its_own(one));
    quick_failures row;
    row.add(failed(1, "no module x"), 1s, "a", false);
    row.add(one, 1s, "a", false);
    CHECK(row.in_row() == 2);
    CHECK(row.alike() == 0);
    row.add(failed(1, "no module x"), 1s, "a", false);
    CHECK(row.alike() == 1);
  }
}

TEST_CASE("failures alike are counted in a row, with the longest of their times") {
  quick_failures row;
  CHECK(row.alike() == 0);
  row.add(failed(1, "x"), 1200ms, "a", false);
  row.add(failed(1, "x"), 2001ms, "a", false);
  CHECK(row.alike() == 2);
  CHECK(row.are_same());
  CHECK(row.within() == 3s);
  CHECK(row.node() == "a");
  row.add(failed(1, "x"), 0s, "b", false);
  CHECK(row.alike() == 3);
  CHECK(row.within() == 3s);
  CHECK(row.node() == "");
  row.add(failed(1, "y"), 0s, "b", false);
  CHECK(row.alike() == 1);
  CHECK(row.in_row() == 4);
  CHECK(row.within() == 1s);
  CHECK(row.node() == "b");
  row.forget_alike();
  CHECK(row.alike() == 0);
  CHECK(row.in_row() == 4);
  row.end_row();
  CHECK(row.in_row() == 0);
}

TEST_CASE("rounds in which all ranks failed are alike, whoever was first with what") {
  quick_failures row;
  row.add(failed(1, "x"), 1s, "a", true);
  row.add(failed(2, "y"), 1s, "a", true);
  CHECK(row.alike() == 2);
  CHECK_FALSE(row.are_same());
  CHECK(row.node() == "");
  row.add(failed(3, "z"), 1s, "a", false);
  CHECK(row.alike() == 1);
}

TEST_CASE("the first restart is at once, then pauses double up to their bound") {
  quick_failures row;
  std::vector<duration> pauses;
  for (int round = 1; round <= 8; ++round) {
    row.add(failed(round), 0s, "a", false);
    pauses.push_back(row.pause(30s));
  }
  CHECK(pauses == std::vector<duration>{0s, 1s, 2s, 4s, 8s, 16s, 30s, 30s});
  CHECK(row.pause(0s) == 0s);
  CHECK(row.pause(500ms) == 500ms);
}

TEST_CASE("a pause is bounded after any number of failures") {
  quick_failures row;
  for (int round = 0; round < 1000; ++round)
    row.add(failed(round), 0s, "a", false);
  CHECK(row.pause(timer_max) == timer_max);
}

TEST_CASE("a round's end is quick within startup_window of when all ran, or before") {
  timers timing;
  round_age age;
  age.begin(machine_origin);
  CHECK(age.quick_end(machine_origin + 3s, timing) == 3s);
  CHECK_FALSE(age.quick_end(machine_origin + timing.start_timeout, timing));
  age.all_run(machine_origin + 30s);
  CHECK(age.quick_end(machine_origin + 31s, timing) == 1s);
  CHECK(age.quick_end(machine_origin + 39999ms, timing) == 9999ms);
  CHECK_FALSE(age.quick_end(machine_origin + 40s, timing));
  SECTION("the next one begins") {
    age.begin(machine_origin + 50s);
    CHECK_FALSE(age.all_run_since());
    CHECK(age.quick_end(machine_origin + 51s, timing) == 1s);
  }
  SECTION("one that an earlier daemon began") {
    age.begin_found();
    age.all_run(machine_origin + 50s);
    CHECK_FALSE(age.quick_end(machine_origin + 51s, timing));
    CHECK(age.all_run_since() == machine_origin + 50s);
  }
}
