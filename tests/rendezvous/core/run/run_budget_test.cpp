// Rule 6: what is charged to --max-restarts, and when that is forgiven.
#include "rendezvous/core/run/restarts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"
#include "tests/support/restart_story.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using ddprun::tests::origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// `restart_budget` without a run.
TEST_CASE("restarts are charged up to their limit") {
  restart_budget budget;
  CHECK(budget.charge_restart(2));
  CHECK(budget.charge_restart(2));
  CHECK_FALSE(budget.charge_restart(2));
  CHECK(budget.restarts_used() == 2);
  CHECK_FALSE(restart_budget().charge_restart(0));
}

TEST_CASE("a node that knows of more restarts is believed, one that knows of fewer is not") {
  restart_budget budget;
  budget.raise_restarts_used(3);
  budget.raise_restarts_used(1);
  CHECK(budget.restarts_used() == 3);
  budget.set_restarts_used(0);
  CHECK(budget.restarts_used() == 0);
}

TEST_CASE("a loss of a node counts for an hour") {
  restart_budget budget;
  CHECK(budget.charge_node_loss(origin, 2));
  CHECK(budget.charge_node_loss(origin + 30min, 2));
  CHECK(budget.node_losses(origin + 59min) == 2);
  CHECK_FALSE(budget.charge_node_loss(origin + 59min, 2));
  CHECK(budget.node_losses(origin + 60min) == 2);  // the first no longer counts
  CHECK(budget.node_losses(origin + 3h) == 0);
  CHECK(budget.charge_node_loss(origin + 3h, 1));
  CHECK_FALSE(restart_budget().charge_node_loss(origin, 0));
}

TEST_CASE("a refill forgives what was used, and takes nothing back") {
  restart_budget budget;
  CHECK(budget.charge_restart(1));
  CHECK(budget.is_spent(1));
  budget.refill();
  CHECK_FALSE(budget.is_spent(1));
  CHECK(budget.restarts_used() == 1);
  CHECK(budget.restarts_forgiven() == 1);
  CHECK(budget.charge_restart(1));
  CHECK_FALSE(budget.charge_restart(1));
  CHECK(budget.restarts_used() == 2);
  CHECK(budget.restarts_counted() == 1);
  budget.set_restarts_used(0);  // what was forgiven is known before what was used
  CHECK(budget.restarts_forgiven() == 0);
  budget.raise_restarts_used(5);
  budget.raise_restarts_forgiven(0);
  CHECK(budget.restarts_forgiven() == 1);
  budget.set_restarts_forgiven(4);
  CHECK(budget.restarts_counted() == 1);
}

TEST_CASE("one node loss more than --max-node-losses ends the run") {
  run_settings settings = nodes_of(1, 4, 0);
  settings.node_losses_max = 1;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  std::vector<fake_node*> nodes;
  for (int index = 0; index < 4; ++index)
    nodes.push_back(&story.joined("n" + std::to_string(index), settings));
  story.start_round();
  const auto lose = [&](int index) {
    story.guardian(*nodes[index]);
    story.stop_all();
    story.pass(600ms);
  };
  lose(3);
  REQUIRE(story.view().phase == run_phase::preparing);
  story.start_round();
  CHECK(story.view().node_losses == 1);
  CHECK(story.view().restarts_used == 0);
  story.pass(59min);
  lose(2);
  CHECK(nodes[0]->wanted.phase == desired_phase::close);
  CHECK(nodes[0]->wanted.exit_code == 1);
  CHECK_THAT(nodes[0]->wanted.text, Contains("more than 1 node losses within an hour"));
}

TEST_CASE("without a restart left the run ends with the cause's exit code") {
  pair_story story(nodes_of(2, 2, 0));
  story.fail(*story.b, 3);
  CHECK(story.a->wanted.phase == desired_phase::stop);
  story.stop_all();
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 3);
  CHECK(story.a->wanted.text == "b: rank 2 (local rank 0) exited with code 3");
  CHECK(story.b->wanted.exit_code == 3);
}

// The stop says so, so that no worker lives on for a round that cannot follow.
TEST_CASE("a stop says with what the run ends where the budget allows no other round") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(2, 2, 1));
  fake_node& b = story.joined("b", nodes_of(2, 2, 1));
  story.start_round();
  story.fail(b, 3);
  REQUIRE(a.wanted.phase == desired_phase::stop);
  CHECK(a.wanted.exit_code == 0);
  story.stop_all();
  story.start_round();
  SECTION("of a failure of its own") {
    story.fail(b, 3);
    REQUIRE(a.wanted.phase == desired_phase::stop);
    CHECK(a.wanted.exit_code == 3);
  }
  SECTION("not of one that follows from another, of which more may be heard") {
    cause effect = run_story::cause_of(b, cause_class::exit, 3);
    effect.is_secondary = true;
    b.state.causes = {effect};
    story.say(b, member_phase::failed);
    story.pass(2s);
    REQUIRE(a.wanted.phase == desired_phase::stop);
    CHECK(a.wanted.exit_code == 0);
  }
}

// The budget is refilled: DESIGN.md, rule 6.
TEST_CASE("restart_window without a failure refills the budget, and forgets no charge") {
  run_settings settings = nodes_of(2, 2, 1);
  settings.timing.restart_window = 60s;
  run_story story(keeping());
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  fail_round(story, b, 3);
  story.start_round();
  CHECK(a.reports.back().text == "restart 1 of 1");
  story.pass(59s);
  SECTION("too early") {
    fail_round(story, b, 3);
    CHECK(story.view().phase == run_phase::closed);
    CHECK_THAT(a.wanted.text, EndsWith("; the only restart is used"));
  }
  SECTION("an effect came, whose cause is waited for") {
    cause effect = run_story::cause_of(b, cause_class::exit, 3);
    effect.is_secondary = true;
    b.state.causes = {effect};
    story.say(b, member_phase::failed);
    story.pass(2s);
    story.stop_all();
    CHECK(story.view().phase == run_phase::closed);
  }
  SECTION("in time") {
    story.pass(1s);
    CHECK(story.view().restarts_used == 1);
    CHECK(story.view().restarts_forgiven == 1);
    CHECK(story.kept->restarts_forgiven == 1);
    CHECK_THAT(story.notes.back(), EndsWith("--max-restarts starts over, after 1 restart"));
    const std::size_t times_kept = story.times_kept;
    story.pass(10min);
    CHECK(story.times_kept == times_kept);
    fail_round(story, b, 3);
    CHECK(story.kept->restarts_used == 2);
    story.start_round();
    CHECK(a.wanted.restarts_used == 2);
    CHECK(a.wanted.restarts_forgiven == 1);
    CHECK(a.reports.back().text == "restart 1 of 1 (2 in all)");
    fail_round(story, b, 3);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(a.wanted.restarts_used == 2);
  }
  SECTION("the loop stood still: that was no time without a failure") {
    story.now += 30s;
    story.step(core::loop_was_late{30s});
    story.pass(900ms);
    CHECK(story.view().restarts_forgiven == 0);
    story.pass(100ms);
    CHECK(story.view().restarts_forgiven == 1);
  }
}

TEST_CASE("the next daemon knows what was forgiven, from the record or from agents") {
  run_settings settings = nodes_of(2, 2, 2);
  settings.timing.restart_window = 60s;
  core::run_record record = open_record();
  record.restarts_used = 5;
  record.restarts_forgiven = 5;
  SECTION("its round is kept: it was forgiven while that ran") {
    run_story story(keeping(record));
    fake_node& a = survivor(story, "a", 0);
    fake_node& b = survivor(story, "b", 1);
    for (fake_node* const who : {&a, &b}) {
      who->greeting.settings = settings;
      who->state.restarts_used = 5;
      who->state.restarts_forgiven = 3;
      story.connect(*who);
    }
    CHECK(story.view().restarts_used == 5);
    CHECK(story.view().restarts_forgiven == 5);
    fail_round(story, b, 3);
    story.start_round();
    CHECK(a.reports.back().text == "restart 1 of 2 (6 in all)");
  }
  SECTION("all have died and come again") {
    run_story story(keeping(record));
    fake_node& a = story.joined("a", settings);
    fake_node& b = story.joined("b", settings);
    story.pass(10100ms);
    story.start_round();
    CHECK(a.wanted.restarts_used == 5);
    CHECK(a.wanted.restarts_forgiven == 5);
    fail_round(story, b, 3);
    CHECK(story.view().restarts_used == 6);
    CHECK(story.view().phase != run_phase::closed);
  }
  SECTION("there is no record") {
    core::run_options options;
    options.recovery_until = run_story::origin + 10s;
    run_story story(options);
    fake_node& a = survivor(story, "a", 0);
    fake_node& b = survivor(story, "b", 1);
    for (fake_node* const who : {&a, &b}) {
      who->greeting.settings = settings;
      who->state.restarts_used = 5;
      who->state.restarts_forgiven = 3;
      story.connect(*who);
    }
    CHECK(story.view().restarts_used == 5);
    CHECK(story.view().restarts_forgiven == 3);
    fail_round(story, b, 3);
    CHECK(story.view().phase == run_phase::closed);
  }
}

TEST_CASE("without restart_window no node is believed that restarts were forgiven") {
  core::run_options options;
  options.recovery_until = run_story::origin + 10s;
  run_story story(options);
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  for (fake_node* const who : {&a, &b}) {
    who->state.restarts_used = who->state.restarts_forgiven = 4'000'000'000;
    story.connect(*who);
  }
  CHECK(story.view().restarts_used == 3);
  CHECK(story.view().restarts_forgiven == 0);
}
