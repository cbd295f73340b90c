// What the record of a daemon that died tells the next one: which nodes were in the newest round,
// how the run was about to end, and how earlier instances ended.
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"

#include <utility>

using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

namespace {

fake_node& joined_from(run_story& story, const std::string& host, const std::string& address,
                       const run_settings& settings) {
  fake_node& who = story.node(host, settings);
  who.peer_address = address;
  story.connect(who);
  return who;
}

bool says(const run_story& story, const std::string& text) {
  return story.why().find(text) != std::string::npos;
}

// The record of a run that was about to end with 3, because its round 3 had failed beyond the
// budget.
run_record due_record() {
  run_record record = open_record();
  record.gone_after = 60s;
  record.due = due_end{3, {3, "rank 2 exited with code 3; the only restart is used"}};
  return record;
}

}  // namespace

TEST_CASE("the members of the newest round are in the record by name") {
  run_story story(keeping());
  story.joined("a", nodes_of(2, 3));
  fake_node& b = story.node("b", nodes_of(2, 3));
  b.greeting.node_is_explicit = true;
  story.connect(b);
  CHECK(story.kept->members.empty());
  story.joined("c", nodes_of(2, 3));
  story.start_round();
  const std::vector<std::string> all{"a (10.0.0.1)", "b", "c (10.0.0.3)"};
  CHECK(story.kept->members.items() == all);
  CHECK(story.kept->nodes == 3);
  story.goodbye(b);
  story.stop_all();
  story.pass(1s);
  const std::vector<std::string> others{"a (10.0.0.1)", "c (10.0.0.3)"};
  CHECK(story.kept->members.items() == others);
}

TEST_CASE("newcomers are not taken for the members of the newest round, even if they are as many") {
  run_record record = open_record();
  record.gone_after = 60s;
  run_story story(keeping(record));
  const run_settings settings = nodes_of(1, 4);
  fake_node& c = story.joined("c", settings);
  story.joined("d", settings);
  story.joined("e", settings);
  story.pass(50s);
  CHECK(c.wanted.phase == desired_phase::wait);
  CHECK(says(story, "must have ended, or until a (10.0.0.1) and b (10.0.0.2) are back"));
  SECTION("until these are there, too") {
    joined_from(story, "b", "10.0.0.2", nodes_of(1, 4));
    CHECK(c.wanted.phase == desired_phase::wait);
    CHECK(says(story, "or until a (10.0.0.1) is back"));
  }
  SECTION("until none of these can live") {
    story.pass(11s);
    CHECK(c.wanted.phase == desired_phase::prepare);
    CHECK(c.wanted.instance == 42);
    CHECK(c.wanted.round == 17);
  }
}

TEST_CASE("a member that comes again and goes is waited for again") {
  run_record record = open_record();
  record.gone_after = 60s;
  run_story story(keeping(record));
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.goodbye(b);
  story.pass(11s);
  CHECK(a.wanted.phase == desired_phase::wait);
  CHECK(says(story, "or until b (10.0.0.2) is back"));
  joined_from(story, "b", "10.0.0.2", nodes_of(1, 2));
  CHECK(a.wanted.phase == desired_phase::prepare);
}

TEST_CASE("two members of one host are two") {
  run_record record = open_record();
  record.members = shared_list<std::string>({"a (10.0.0.1)", "a (10.0.0.1)"});
  run_story story(keeping(record));
  fake_node& first = story.joined("a", nodes_of(1, 2));
  story.pass(20s);
  CHECK(first.wanted.phase == desired_phase::wait);
  joined_from(story, "a", "10.0.0.1", nodes_of(1, 2));
  CHECK(first.wanted.phase == desired_phase::prepare);
}

TEST_CASE("the members of a round that has come back in part are not known to the next daemon") {
  run_story story(keeping(open_record()));
  fake_node& a = survivor(story, "a", 0);
  story.connect(a);
  story.pass(11s);
  REQUIRE(a.wanted.phase == desired_phase::stop);
  CHECK(story.kept->nodes == 2);
  const std::vector<std::string> seen{"a (10.0.0.1)", ""};
  CHECK(story.kept->members.items() == seen);
}

TEST_CASE("a failure beyond the budget is in the record before its round has stopped") {
  run_story story(keeping());
  story.joined("a", nodes_of(2, 2, 0));
  fake_node& b = story.joined("b", nodes_of(2, 2, 0));
  story.start_round();
  CHECK_FALSE(story.kept->due);
  story.fail(b, 3);
  REQUIRE(story.kept->due);
  CHECK(story.kept->due->round == 1);
  CHECK(story.kept->due->how.exit_code == 3);
  CHECK_FALSE(story.kept->due->how.text.empty());
  CHECK_FALSE(story.kept->end);
  SECTION("and is the end then") {
    const run_end due = story.kept->due->how;
    story.stop_all();
    CHECK(story.kept->end == due);
    CHECK_FALSE(story.kept->due);
  }
  SECTION("but is taken back where it proves to be another one") {
    story.disconnect(b);
    story.pass(30s);
    CHECK_FALSE(story.kept->due);
    CHECK_FALSE(story.kept->end);
  }
}

TEST_CASE("a node loss beyond the budget is in the record before its round has stopped") {
  run_settings settings = nodes_of(1, 2);
  settings.node_losses_max = 0;
  run_story story(keeping());
  story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  story.guardian(b);
  REQUIRE(story.kept->due);
  CHECK(story.kept->due->how.text.find("--max-node-losses") != std::string::npos);
}

TEST_CASE("a round that had failed beyond the budget ends the run when it has stopped here") {
  run_story story(keeping(due_record()));
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  a.state.phase = b.state.phase = member_phase::stopping;
  story.connect(a);
  SECTION("all of whose members come back") {
    story.connect(b);
    story.pass(11s);
  }
  SECTION("of which one comes back") {
    story.pass(11s);
  }
  SECTION("of which one comes back that had succeeded") {
    a.state.phase = member_phase::succeeded;
    story.say(a);
    story.pass(11s);
  }
  REQUIRE(a.wanted.phase == desired_phase::stop);
  CHECK(story.kept->due == due_record().due);
  story.stop_all();
  story.pass(1min);
  CHECK(story.view().phase == run_phase::closed);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 3);
  CHECK(a.wanted.text == due_record().due->how.text);
  CHECK(story.kept->end == due_record().due->how);
}

TEST_CASE("a round that goes on says itself whether it has failed") {
  run_story story(keeping(due_record()));
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  SECTION("that round") {
    story.connect(a);
    story.connect(b);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("a newer one, as that failure had cost nothing") {
    a.state.round = 4;
    story.connect(a);
    story.pass(11s);
    REQUIRE(a.wanted.phase == desired_phase::stop);
    story.stop_all();
    story.pass(1min);
    CHECK(story.view().phase == run_phase::gathering);
  }
  CHECK_FALSE(story.kept->due);
  CHECK_FALSE(story.kept->end);
}

TEST_CASE("a job that is started again after a failure beyond the budget is a new instance") {
  run_story story(keeping(due_record()));
  const run_settings settings = nodes_of(2, 2);
  SECTION("at once where all that were in the round are there") {
    fake_node& a = story.joined("a", settings);
    story.joined("b", settings);
    story.pass(11s);
    CHECK(a.wanted.phase == desired_phase::prepare);
    CHECK(a.wanted.instance == 100);
    CHECK(a.wanted.restarts_used == 0);
    fake_node& late = survivor(story, "b", 1);
    story.connect(late);
    CHECK(late.wanted.phase == desired_phase::close);
    CHECK(late.wanted.instance == 42);
    CHECK(late.wanted.exit_code == 3);
  }
  SECTION("otherwise when none of its workers can live") {
    fake_node& c = story.joined("c", settings);
    story.joined("d", settings);
    story.pass(50s);
    CHECK(c.wanted.phase == desired_phase::wait);
    story.pass(11s);
    CHECK(c.wanted.phase == desired_phase::prepare);
    CHECK(c.wanted.instance == 100);
  }
}

TEST_CASE("after an end that was due the missing nodes are known until a node is placed") {
  run_story story(keeping(due_record()));
  const run_settings settings = nodes_of(1, 2);
  fake_node& a = story.joined("a", settings);
  story.pass(20s);
  REQUIRE(a.wanted.phase == desired_phase::wait);
  REQUIRE(story.view().instance == 100);
  CHECK(says(story, "must have ended, or until b (10.0.0.2) is back"));
  SECTION("and starts when all are back") {
    fake_node& b = joined_from(story, "b", "10.0.0.2", settings);
    CHECK(a.wanted.phase == desired_phase::prepare);
    CHECK(b.wanted.instance == 100);
  }
  SECTION("but no newcomer is taken for one of them") {
    story.joined("c", settings);
    CHECK(a.wanted.phase == desired_phase::wait);
    story.pass(39s);
    CHECK(a.wanted.phase == desired_phase::wait);
    story.pass(2s);
    CHECK(a.wanted.phase == desired_phase::prepare);
  }
  SECTION("nor one that has gone again") {
    story.goodbye(a);
    fake_node& b = joined_from(story, "b", "10.0.0.2", settings);
    story.pass(10s);
    CHECK(b.wanted.phase == desired_phase::wait);
    CHECK(says(story, "or until a (10.0.0.1) is back"));
    joined_from(story, "a", "10.0.0.1", settings);
    CHECK(story.view().phase == run_phase::preparing);
  }
  SECTION("also by the daemon after this one") {
    REQUIRE(story.kept);
    CHECK(story.kept->instance == 100);
    CHECK_FALSE(story.kept->due);
    CHECK(story.kept->nodes == 2);
    CHECK(story.kept->members == due_record().members);
    run_story third(keeping(story.kept));
    fake_node& again = back_from_waiting(third, "a", settings, 100);
    third.pass(20s);
    CHECK(again.wanted.phase == desired_phase::wait);
    CHECK(says(third, "or until b (10.0.0.2) is back"));
    joined_from(third, "b", "10.0.0.2", settings);
    CHECK(again.wanted.phase == desired_phase::prepare);
    CHECK(again.wanted.instance == 100);
  }
}

TEST_CASE("nodes that had waited beside a round that failed beyond the budget are told the end") {
  run_story story(keeping(due_record()));
  fake_node& waiting = back_from_waiting(story, "c", nodes_of(2, 2), 42);
  story.pass(11s);
  CHECK(waiting.wanted.phase == desired_phase::close);
  CHECK(waiting.wanted.exit_code == 3);
  CHECK(story.kept->end == due_record().due->how);
  CHECK(story.kept->nodes != 0);
  CHECK(story.kept->members == due_record().members);
  story.goodbye(waiting);
  SECTION("and newcomers wait for the round's workers") {
    fake_node& next = story.joined("d", nodes_of(1, 1));
    CHECK(next.wanted.phase == desired_phase::wait);
    story.pass(50s);
    CHECK(next.wanted.phase == desired_phase::prepare);
    CHECK(next.wanted.instance != 42);
  }
  SECTION("and so do its members until all are back") {
    fake_node& a = joined_from(story, "a", "10.0.0.1", nodes_of(1, 2));
    CHECK(a.wanted.phase == desired_phase::wait);
    joined_from(story, "b", "10.0.0.2", nodes_of(1, 2));
    CHECK(a.wanted.phase == desired_phase::prepare);
    CHECK(a.wanted.instance != 42);
  }
  SECTION("also at the daemon after this one") {
    run_story third(keeping(story.kept));
    fake_node& a = joined_from(third, "a", "10.0.0.1", nodes_of(1, 2));
    CHECK(a.wanted.phase == desired_phase::wait);
    joined_from(third, "b", "10.0.0.2", nodes_of(1, 2));
    CHECK(a.wanted.phase == desired_phase::prepare);
  }
}

TEST_CASE(
    "a run that had failed beyond its budget, and to which no node comes back, ends with that") {
  run_story story(keeping(due_record()));
  story.pass(10min + 1s);
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.kept->end == due_record().due->how);
}

namespace {

// Closes a run of one node, whose worker fails at once with this code.
void end_one(run_story& story, int exit_code) {
  fake_node& only = story.joined("a", nodes_of(1, 1, 0));
  story.start_round();
  story.fail(only, exit_code);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(only);
}

// The node was away when that instance ended.
fake_node& away_in(run_story& story, instance_id instance) {
  fake_node& who = survivor(story, "z", 0);
  who.state.instance = instance;
  who.state.round = 1;
  who.state.assignment->group_world_size = 1;
  who.state.assignment->world_size = 2;
  return who;
}

}  // namespace

TEST_CASE("how the instance before ended outlives the daemon, whatever was opened since") {
  run_story story(keeping());
  end_one(story, 3);
  const instance_id ended = story.view().instance;
  fake_node& next = story.joined("b", nodes_of(1, 1));
  story.start_round();
  REQUIRE(next.wanted.instance != ended);
  REQUIRE(story.kept->past.size() == 1);
  CHECK(story.kept->past.items()[0].instance == ended);
  CHECK(story.kept->past.items()[0].how.exit_code == 3);
  SECTION("for a node that comes back to the next daemon first") {
    run_story third(keeping(story.kept));
    fake_node& late = away_in(third, ended);
    third.connect(late);
    CHECK(late.wanted.phase == desired_phase::close);
    CHECK(late.wanted.instance == ended);
    CHECK(late.wanted.exit_code == 3);
    CHECK(third.view().instance != ended);
    CHECK(third.times_kept == 0);
  }
  SECTION("also where that has ended, too") {
    story.step(operator_stop_requested{"enough"});
    story.stop_all();
    REQUIRE(story.kept->end);
    REQUIRE(story.kept->past.size() == 1);
    run_story third(keeping(story.kept));
    fake_node& late = away_in(third, ended);
    third.connect(late);
    CHECK(late.wanted.exit_code == 3);
  }
  SECTION("for an hour") {
    story.pass(61min);
    CHECK(story.kept->past.empty());
  }
}

TEST_CASE("the newest ends are in the record, and no more than it has room for") {
  run_story story(keeping());
  for (int index = 0; index < 12; ++index)
    end_one(story, 10 + index);
  CHECK(story.kept->end->exit_code == 21);
  REQUIRE(story.kept->past.size() == past_ends_max);
  CHECK(story.kept->past.items().front().how.exit_code == 20);
  CHECK(story.kept->past.items().back().how.exit_code == 13);
  story.joined("b", nodes_of(1, 1));
  REQUIRE(story.kept->past.size() == past_ends_max);
  CHECK(story.kept->past.items().front().how.exit_code == 21);
  CHECK(story.kept->past.items().back().how.exit_code == 14);
}
