// Rule 12: failures soon after the start.
#include "rendezvous/core/run/restarts.hpp"
#include "rendezvous/core/run/round.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"
#include "tests/support/restart_story.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// `quick_failures` without a run.
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

TEST_CASE("two failures are alike by exit code and text, whichever rank failed") {
  CHECK(is_same_failure(failed(1, "no module x", 0), failed(1, "no module x", 3)));
  CHECK(is_same_failure(failed(3), failed(3)));
  CHECK_FALSE(is_same_failure(failed(3), failed(4)));
  CHECK_FALSE(is_same_failure(failed(1, "no module x"), failed(1, "no module y")));
  CHECK_FALSE(is_same_failure(failed(9), of_kind(cause_class::signal, 9)));
  CHECK(is_same_failure(of_kind(cause_class::signal, SIGSEGV),
                        of_kind(cause_class::signal, SIGSEGV)));
}

TEST_CASE("words with digits make no difference: a step, an address, a process") {
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

TEST_CASE("a secondary failure, our own stop, a lost node and a drain are like no other failure") {
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

TEST_CASE("rounds in which all ranks failed are alike, whichever rank was first") {
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
    age.begin_found(machine_time());
    age.all_run(machine_origin + 50s);
    CHECK_FALSE(age.quick_end(machine_origin + 51s, timing));
    CHECK(age.all_run_since() == machine_origin + 50s);
  }
}

// When restarts do not help, and pauses between them: DESIGN.md, rule 12.
TEST_CASE("the same failure twice in a row within seconds of the start ends the run") {
  pair_story story(restarting(2, 2));
  story.pass(2s);
  fail_round(story, *story.b, 3, "no module x");
  CHECK(story.view().round == 2);
  story.start_round();
  story.pass(1s);
  fail_round(story, *story.a, 3, "no module x");
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.a->wanted.exit_code == 3);
  CHECK(story.b->wanted.exit_code == 3);
  CHECK(story.view().restarts_used == 1);
  CHECK(
      story.a->wanted.text ==
      "a: rank 0 (local rank 0) exited with code 3: no module x; gave up after 1 of 9 restarts: "
      "the same failure occurred within 2 s of the start, twice in a row; restarting does not help "
      "(use --max-quick-failures=0 to restart anyway)");
  CHECK(story.a->reports.back().is_last);
  CHECK_THAT(story.a->reports.back().text, StartsWith("gave up after 1 of 9 restarts: "));
}

TEST_CASE("a failure that comes once is restarted, at once") {
  pair_story story(restarting(2, 2));
  const time_point failed_at = story.now;
  fail_round(story, *story.b, 3);
  story.start_round();
  CHECK(story.now == failed_at);
  CHECK(story.view().phase == run_phase::running);
  story.pass(1h);
  fail_round(story, *story.b, 3);
  CHECK(story.view().round == 3);
}

TEST_CASE("a run that has trained gets one more try, without the snapshot that failed twice") {
  pair_story story(restarting(2, 2));
  story.pass(1h);
  fail_round(story, *story.b, 3);
  for (int again = 0; again < 2; ++again) {
    story.pass(2s);
    story.start_round();
    fail_round(story, *story.b, 9, "bad magic number");
    CHECK(story.view().phase != run_phase::closed);
  }
  story.pass(2s);
  story.start_round();
  fail_round(story, *story.b, 9, "bad magic number");
  CHECK(story.view().phase == run_phase::closed);
  CHECK_THAT(story.a->wanted.text, Contains("within 1 s of the start, 3 times in a row"));
}

TEST_CASE("what ends a row of quick failures") {
  pair_story story(restarting(2, 2));
  fail_round(story, *story.b, 3);
  SECTION("another failure") {
    story.start_round();
    fail_round(story, *story.b, 4);
  }
  SECTION("a round that ran for a while") {
    story.start_round();
    story.pass(10s);
    fail_round(story, *story.b, 3);
  }
  SECTION("a secondary failure, whose cause is unknown") {
    story.start_round();
    cause effect = run_story::cause_of(*story.b, cause_class::exit, 3);
    effect.is_secondary = true;
    story.b->state.causes = {effect};
    story.say(*story.b, member_phase::failed);
    story.pass(2s);
    story.stop_all();
  }
  SECTION("the daemon is another one") {
    // This daemon keeps the round, and cannot know for how long it has run.
    run_story next(keeping(open_record()));
    fake_node& a = survivor(next, "a", 0);
    fake_node& b = survivor(next, "b", 1);
    a.greeting.settings = b.greeting.settings = restarting(2, 2);
    next.connect(a);
    next.connect(b);
    REQUIRE(next.view().phase == run_phase::running);
    fail_round(next, b, 3);
    next.start_round();
    fail_round(next, b, 3);
    CHECK(next.view().phase != run_phase::closed);
    return;
  }
  CHECK(story.view().phase != run_phase::closed);
}

TEST_CASE("a lost node and a join between two failures neither count nor end the row") {
  run_settings settings = restarting(2, 2);
  settings.spares_max = 1;
  pair_story story(settings);
  fake_node& c = story.joined("c", settings);
  fail_round(story, *story.a, 3);
  story.start_round();
  story.guardian(*story.b);
  story.stop_all();
  story.pass(600ms);
  CHECK(story.view().restarts_used == 1);
  story.start_round();
  REQUIRE(c.wanted.phase == desired_phase::run);
  fail_round(story, *story.a, 3);
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.view().exit_code == 3);
}

TEST_CASE("rounds that fail before all workers run count, too; one that does not start, does not") {
  run_story story;
  fake_node& only = story.joined("a", restarting(1, 1));
  SECTION("a leader that cannot prepare") {
    for (int round = 1; round <= 2; ++round) {
      REQUIRE(only.wanted.phase == desired_phase::prepare);
      run_story::obey(only);
      cause why = run_story::cause_of(only, cause_class::start);
      why.text = "port 29500 is in use";
      only.state.causes = {why};
      story.say(only, member_phase::failed);
      story.stop_all();
    }
    CHECK(story.view().phase == run_phase::closed);
    CHECK_THAT(only.wanted.text, Contains("within 1 s of the start, twice in a row"));
  }
  SECTION("a start that takes too long") {
    for (int round = 1; round <= 3; ++round) {
      story.pass(60s);
      story.stop_all();
    }
    CHECK(story.view().phase == run_phase::preparing);
    CHECK(story.view().round == 4);
  }
}

TEST_CASE("rounds in which every rank fails by itself are alike, whatever each says") {
  pair_story story(restarting(2, 2));
  for (int round = 1; round <= 2; ++round) {
    if (round == 2) story.start_round();
    story.a->state.ends = {{ending::failed, 0, 1}};
    story.b->state.ends = {{ending::failed, 2, 3}};
    fail_round(story, *story.b, round,
               "shard " + std::string(static_cast<std::size_t>(round), 'x'));
  }
  CHECK(story.view().phase == run_phase::closed);
  CHECK_THAT(story.a->wanted.text, Contains("all ranks failed within 1 s of the start"));
}

TEST_CASE("--max-quick-failures=0 goes on until the restarts are used") {
  pair_story story(restarting(2, 2, 0, 3));
  for (int round = 1; round <= 4; ++round) {
    fail_round(story, *story.b, 3);
    if (round == 4) break;
    story.pass(30s);
    story.start_round();
  }
  CHECK(story.view().phase == run_phase::closed);
  CHECK_THAT(story.a->wanted.text, EndsWith("; all 3 restarts are used"));
}

TEST_CASE("a limit of one ends the run with the first quick failure") {
  pair_story story(restarting(2, 2, 1));
  fail_round(story, *story.b, 3);
  CHECK_THAT(story.a->wanted.text,
             Contains("; gave up: the round failed within 1 s of the start;"));
}

TEST_CASE("quick failures in a row are followed by pauses, which are announced") {
  pair_story story(restarting(2, 2, 0));
  fail_round(story, *story.b, 1);
  story.start_round();
  fail_round(story, *story.b, 2);
  CHECK(story.view().phase == run_phase::settling);
  CHECK_THAT(story.why(), StartsWith("the next round waits 1 s: the last 2 rounds failed within "
                                     "10 s of their start; here: a (2 workers)"));
  CHECK(story.a->reports.back().text ==
        "restart 2 of 9 in 1 s: the last 2 rounds failed within 10 s of their start");
  story.pass(900ms);
  CHECK(story.view().round == 2);
  story.pass(100ms);
  CHECK(story.view().round == 3);
  story.start_round();
  fail_round(story, *story.b, 3);
  story.pass(1900ms);
  CHECK(story.view().round == 3);
  SECTION("then the next one") {
    story.pass(100ms);
    CHECK(story.view().round == 4);
    SECTION("which runs, and so ends the row") {
      story.start_round();
      story.pass(10s);
      fail_round(story, *story.b, 3);
      CHECK(story.view().round == 5);
    }
  }
  SECTION("the loop stood still") {
    story.now += 5s;
    story.step(core::loop_was_late{5s});
    story.pass(50ms);
    CHECK(story.view().round == 3);
    story.pass(50ms);
    CHECK(story.view().round == 4);
  }
  SECTION("a node that joins does not end it") {
    story.joined("c", story.a->greeting.settings);
    story.pass(50ms);
    CHECK(story.view().round == 3);
  }
  SECTION("Ctrl-C ends it") {
    story.ask_to_leave(*story.a, SIGINT);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.a->wanted.exit_code == 130);
  }
}

TEST_CASE("a node that is lost does not end a pause, and a node that leaves does not wait for it") {
  pair_story story(restarting(1, 2, 0));
  for (int round = 1; round <= 6; ++round) {
    fail_round(story, *story.b, round);
    if (round == 6) break;
    story.pass(20s);
    story.start_round();
  }
  REQUIRE_THAT(story.why(), StartsWith("the next round waits 16 s"));
  SECTION("it is lost") {
    story.guardian(*story.b);
    story.pass(15900ms);
    CHECK(story.view().round == 6);
    story.pass(100ms);
    CHECK(story.view().round == 7);
  }
  SECTION("it leaves") {
    story.ask_to_leave(*story.b, SIGTERM);
    story.pass(600ms);
    CHECK(story.b->wanted.phase == desired_phase::close);
    CHECK(story.view().round == 6);
    story.pass(15400ms);
    CHECK(story.view().round == 7);
  }
  SECTION("all leave") {
    story.ask_to_leave(*story.b, SIGTERM);
    story.ask_to_leave(*story.a, SIGTERM);
    story.pass(600ms);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.a->wanted.exit_code == 128 + SIGTERM);
  }
}

TEST_CASE("without backoff_max no round waits") {
  run_settings settings = restarting(2, 2, 0);
  settings.timing.backoff_max = 0s;
  pair_story story(settings);
  const time_point began = story.now;
  for (int round = 1; round <= 5; ++round) {
    fail_round(story, *story.b, round);
    story.start_round();
  }
  CHECK(story.now == began);
  CHECK(story.view().round == 6);
}
