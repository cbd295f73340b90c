// What outlives the daemon, and what the next one does with it.
#include "rendezvous/core/run/record.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"
#include "tests/support/time_origin.hpp"

using ddprun::tests::machine_origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// What the next daemon does with the record of a run.
TEST_CASE("the next daemon keeps a round whose members all come back, and its budget") {
  run_story story(keeping(open_record()));
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  story.connect(a);
  story.connect(b);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().round == 3);
  CHECK(story.view().restarts_used == 1);
  story.fail(b, 1);
  story.stop_all();
  CHECK(story.view().restarts_used == 2);
  CHECK(story.view().round == 4);
}

TEST_CASE("if not all members come back, one that knew of a newer round may have died") {
  run_story story(keeping(open_record()));
  fake_node& a = survivor(story, "a", 0);
  story.connect(a);
  story.pass(10s);
  CHECK(a.wanted.phase == desired_phase::stop);
  story.stop_all();
  story.pass(20s);
  story.joined("c", nodes_of(2, 2));
  CHECK(story.view().round == 17);
  CHECK(story.view().restarts_used == 1);
}

TEST_CASE("where all have died together, the same commands go on after the window") {
  run_story story(keeping(open_record()));
  fake_node& a = story.joined("a", nodes_of(2, 2));
  story.joined("b", nodes_of(2, 2));
  story.pass(9900ms);
  CHECK(a.wanted.phase == desired_phase::wait);
  story.pass(200ms);
  CHECK(a.wanted.phase == desired_phase::prepare);
  CHECK(a.wanted.instance == 42);
  CHECK(a.wanted.round == 17);
  CHECK(a.wanted.restarts_used == 1);
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(story.kept->instance == 42);
}

TEST_CASE("an instance that had no round yet goes on at once") {
  core::run_record record = open_record();
  record.nodes = 0;
  record.restarts_used = 0;
  run_story story(keeping(record));
  fake_node& only = story.joined("a", nodes_of(1, 1));
  CHECK(only.wanted.phase == desired_phase::prepare);
  CHECK(only.wanted.instance == 42);
}

TEST_CASE("fewer than were in its round wait until no worker of the others can live") {
  core::run_record record = open_record();
  record.gone_after = 60s;
  run_story story(keeping(record));
  fake_node& only = story.joined("a", nodes_of(1, 2));
  SECTION("until then") {
    story.pass(59s);
    CHECK(only.wanted.phase == desired_phase::wait);
    CHECK(story.why().find("an earlier start of this run") != std::string::npos);
    CHECK(story.why().find("or until b (10.0.0.2) is back") != std::string::npos);
    story.pass(1100ms);
    CHECK(only.wanted.phase == desired_phase::prepare);
    CHECK(only.wanted.round == 17);
  }
  SECTION("or for all that were in it") {
    story.pass(20s);
    story.joined("b", nodes_of(1, 2));
    CHECK(only.wanted.phase == desired_phase::prepare);
  }
  SECTION("or for one of them, which knows what is on") {
    story.pass(20s);
    fake_node& late = survivor(story, "b", 1);
    late.greeting.settings = nodes_of(1, 2);
    story.connect(late);
    CHECK(story.view().instance != 43);
    story.pass(11s);
    CHECK(late.wanted.phase == desired_phase::stop);
    CHECK(late.wanted.instance == 42);
  }
}

TEST_CASE("an instance to which no node comes back is lost") {
  run_story story(keeping(open_record()));
  story.pass(9min + 59s);
  CHECK_FALSE(story.machine().forgettable(story.now));
  story.pass(2s);
  CHECK(story.view().phase == run_phase::closed);
  REQUIRE(story.kept->end);
  CHECK(story.kept->end->exit_code == 1);
  CHECK(story.kept->end->text.find("lost: ") == 0);
  fake_node& next = story.joined("a", nodes_of(1, 1));
  CHECK(next.wanted.phase == desired_phase::prepare);
  CHECK(next.wanted.instance != 42);
  CHECK(next.wanted.restarts_used == 0);
}

TEST_CASE("a run that was over is over for its own nodes, and new for others") {
  run_story story(keeping(closed_record(0)));
  SECTION("one that was not told") {
    fake_node& late = survivor(story, "a", 0);
    late.state.phase = member_phase::succeeded;
    story.connect(late);
    CHECK(late.wanted.phase == desired_phase::close);
    CHECK(late.wanted.exit_code == 0);
    CHECK(late.wanted.text == "how it ended");
  }
  SECTION("a new command") {
    fake_node& next = story.joined("a", nodes_of(1, 1));
    CHECK(next.wanted.phase == desired_phase::prepare);
    CHECK(next.wanted.instance == 100);
    CHECK(next.wanted.restarts_used == 0);
    CHECK(story.kept->instance == 100);
  }
  SECTION("no node, for an hour") {
    story.pass(59min);
    CHECK_FALSE(story.machine().forgettable(story.now));
    story.pass(1min);
    CHECK(story.machine().forgettable(story.now));
  }
}

TEST_CASE("after an end that left nodes behind, the next instance waits for them") {
  core::run_record record = closed_record(130);
  record.nodes = 2;
  record.gone_after = 60s;
  run_story story(keeping(record));
  fake_node& next = story.joined("a", nodes_of(1, 1));
  CHECK(next.wanted.phase == desired_phase::wait);
  story.pass(61s);
  CHECK(next.wanted.phase == desired_phase::prepare);
}

TEST_CASE("agents know better than an old copy of the journal") {
  run_story story(keeping(open_record()));
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  for (fake_node* const who : {&a, &b}) {
    who->state.instance = 43;
    who->state.round = 30;
    who->state.restarts_used = 2;
    story.connect(*who);
  }
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 43);
  CHECK(story.view().round == 30);
  CHECK(story.view().restarts_used == 2);
  CHECK(story.kept->instance == 43);
  CHECK(story.kept->rounds_reserved > 30);
}

TEST_CASE("workers of the last instance that may be alive are not forgotten with the next one") {
  core::run_record record = closed_record(130);
  record.nodes = 2;
  record.gone_after = 60s;
  run_story story(keeping(record));
  fake_node& next = story.joined("a", nodes_of(1, 1));
  REQUIRE(next.wanted.phase == desired_phase::wait);
  REQUIRE(story.kept);
  SECTION("while it waits") {
    CHECK(story.kept->instance == 100);
    CHECK_FALSE(story.kept->end);
    run_story third(keeping(story.kept));
    fake_node& again = third.joined("a", nodes_of(1, 1));
    third.pass(30s);
    CHECK(again.wanted.phase == desired_phase::wait);
    third.pass(31s);
    CHECK(again.wanted.phase == desired_phase::prepare);
  }
  SECTION("when it has gone without a round") {
    story.goodbye(next);
    REQUIRE(story.kept);
    CHECK(story.kept->instance == 42);
    CHECK(story.kept->gone_after == 60s);
    run_story third(keeping(story.kept));
    fake_node& again = third.joined("a", nodes_of(1, 1));
    CHECK(again.wanted.phase == desired_phase::wait);
  }
  SECTION("until they are gone") {
    story.pass(61s);
    REQUIRE(next.wanted.phase == desired_phase::prepare);
    CHECK(story.kept->nodes == 1);
  }
}

TEST_CASE("a spare that was told of the round is none of those that had died in it") {
  run_story story(keeping(open_record()));
  const run_settings settings = nodes_of(1, 2);
  fake_node& newcomer = story.joined("n", settings);
  story.pass(11s);
  REQUIRE(newcomer.wanted.phase == desired_phase::wait);
  fake_node& spare = story.node("s", settings);
  spare.state.instance = 42;
  spare.state.round_told = 3;
  spare.state.desired_seq = 30;
  story.connect(spare);
  story.pass(20s);
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  CHECK(spare.wanted.phase == desired_phase::wait);
  SECTION("nor for the daemon after this one") {
    CHECK(story.kept->nodes == 2);
    CHECK(story.kept->gone_after == 10min);
  }
  SECTION("until none can live") {
    story.pass(10min + 30s);
    CHECK(newcomer.wanted.instance == 42);
    CHECK(story.view().round == 17);
  }
}

TEST_CASE("a failure that is reported to two daemons is charged once") {
  run_story story(keeping(open_record()));
  fake_node& a = survivor(story, "a", 0);
  fake_node& b = survivor(story, "b", 1);
  // The record has the charge, which the round began without.
  a.state.restarts_used = b.state.restarts_used = 0;
  a.state.phase = member_phase::failed;
  story.connect(b);
  story.connect(a);
  REQUIRE(a.wanted.phase == desired_phase::stop);
  story.stop_all();
  CHECK(story.view().restarts_used == 1);
}

TEST_CASE("an instance in which no node was placed has no round, whatever was before it") {
  run_story story(keeping(closed_record(0)));
  fake_node& only = story.joined("a", nodes_of(2, 2));
  CHECK(only.wanted.phase == desired_phase::wait);
  CHECK(only.wanted.round == 0);
  REQUIRE(story.kept->instance == 100);
  run_story third(keeping(story.kept));
  fake_node& again = back_from_waiting(third, "a", nodes_of(2, 2), 100);
  fake_node& other = third.joined("b", nodes_of(2, 2));
  CHECK(other.wanted.instance == 100);
  CHECK(again.wanted.phase == desired_phase::prepare);
  CHECK(again.wanted.round == 17);
}

// `persisted_run`, which holds what an earlier daemon has persisted of an open instance, without a
// run.
namespace {

run_record record_of_three() {
  run_record record;
  record.instance = 17;
  record.nodes = 3;
  record.members = shared_list<std::string>({"a", "b", "b"});
  record.gone_after = 20s;
  record.lost_after = 60s;
  return record;
}

}  // namespace

TEST_CASE("nothing is taken from a record that was not there, or that has been dropped") {
  persisted_run earlier;
  CHECK_FALSE(earlier.is_there());
  CHECK_FALSE(earlier.is_of(17));
  CHECK(earlier.living_until() == std::nullopt);
  earlier.begin(record_of_three(), machine_origin);
  CHECK(earlier.is_there());
  CHECK(earlier.is_of(17));
  CHECK_FALSE(earlier.is_of(18));
  earlier.drop();
  CHECK_FALSE(earlier.is_there());
}

TEST_CASE("workers may live until all members are here again, or for so long") {
  persisted_run earlier;
  earlier.begin(record_of_three(), machine_origin);
  CHECK(earlier.living_until() == machine_origin + 20s);
  CHECK(earlier.lost_at() == machine_origin + 60s);
  const std::vector<std::string> all{"a", "b"};
  CHECK(earlier.members().missing_names() == all);
  CHECK(earlier.members().missing() == 3);
  for (const char* const name : {"c", "a", "a", "a", "b"})
    earlier.count(name, true);
  CHECK(earlier.living_until() == machine_origin + 20s);
  CHECK(earlier.members().missing_names() == std::vector<std::string>{"b"});
  earlier.count("b", true);
  CHECK(earlier.living_until() == std::nullopt);
  SECTION("one is more than are needed") {
    earlier.count("a", false);
    earlier.count("a", false);
    CHECK(earlier.members().missing() == 0);
    earlier.count("a", false);
    CHECK(earlier.members().missing() == 1);
  }
  SECTION("one goes again") {
    earlier.count("b", false);
    CHECK(earlier.living_until() == machine_origin + 20s);
    CHECK(earlier.members().missing_names() == std::vector<std::string>{"b"});
  }
}

TEST_CASE("members whose names are not known never count as back") {
  run_record record = record_of_three();
  SECTION("of none") {
    record.members = {};
  }
  SECTION("of the last") {
    record.members = shared_list<std::string>({"a", "b"});
  }
  SECTION("of one between others") {
    record.members = shared_list<std::string>({"a", "", "b"});
  }
  persisted_run earlier;
  earlier.begin(record, machine_origin);
  for (const char* const name : {"a", "b", "b", "", "c"})
    earlier.count(name, true);
  CHECK(earlier.living_until() == machine_origin + 20s);
  CHECK(earlier.members().missing_names().empty());
}

// `record_persistence`, which tracks what has to be persisted, without a run.
TEST_CASE("a record is requested once, and is persisted when its number or a later one is") {
  run_record first;
  first.instance = 5;
  run_record second = first;
  second.restarts_used = 1;

  record_persistence records;
  CHECK(records.is_persisted(std::nullopt));
  CHECK(records.ask(first) == 1U);
  CHECK_FALSE(records.ask(first));
  CHECK_FALSE(records.is_persisted(first));
  CHECK(records.ask(second) == 2U);
  records.set_persisted(1);
  CHECK_FALSE(records.is_persisted(second));
  records.set_persisted(2);
  records.set_persisted(1);
  CHECK(records.is_persisted(second));
  CHECK_FALSE(records.is_persisted(first));
  CHECK(records.ask(std::nullopt) == 3U);
  CHECK_FALSE(records.is_persisted(std::nullopt));
}

TEST_CASE("what an earlier daemon has persisted stays persisted") {
  run_record record;
  record.instance = 5;
  record_persistence records;
  records.begin_with(record);
  CHECK(records.is_persisted(record));
  CHECK_FALSE(records.ask(record));
}

// What a run asks to be persisted, and what waits for that.
TEST_CASE("without a journal nothing is persisted, and nothing waits") {
  pair_story story;
  CHECK(story.times_kept == 0);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("a run on a new daemon with a journal waits for no former member") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1));
  CHECK(only.wanted.phase == desired_phase::prepare);
  REQUIRE(story.kept);
  CHECK(story.kept->instance == 100);
  CHECK(story.kept->nodes == 1);
  CHECK(story.kept->rounds_reserved >= 8);
  CHECK_FALSE(story.kept->end);
}

TEST_CASE("workers are started only once the record that allows it is persisted") {
  run_story story(keeping());
  story.disk_answers = false;
  fake_node& only = story.joined("a", nodes_of(1, 1));
  story.start_round();
  CHECK(only.wanted.phase == desired_phase::prepare);
  story.pass(300ms);
  CHECK(only.wanted.phase == desired_phase::prepare);
  CHECK(story.why().find("waiting for the journal's disk") != std::string::npos);
  story.disk_answers_now();
  CHECK(only.wanted.phase == desired_phase::run);
}

TEST_CASE("a failure is charged in the record when it is reported, so that no restart waits") {
  run_story story(keeping());
  fake_node& a = story.joined("a", nodes_of(2, 2));
  fake_node& b = story.joined("b", nodes_of(2, 2));
  story.start_round();
  CHECK(story.kept->restarts_used == 0);
  story.disk_answers = false;
  story.fail(b, 1);
  CHECK(story.kept->restarts_used == 1);
  const std::size_t times = story.times_kept;
  story.disk_answers_now();
  story.stop_all();
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(a.wanted.round == 2);
  CHECK(story.times_kept == times);
}

TEST_CASE("a charge that proves free is taken back") {
  run_story story(keeping());
  story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.fail(b, 1);
  CHECK(story.kept->restarts_used == 1);
  story.disconnect(b);
  story.pass(30s);
  // The node died, and its worker with it, which is not a failure of the worker.
  CHECK(story.view().restarts_used == story.kept->restarts_used);
}

TEST_CASE("round numbers are reserved ahead, and no round has a number that is not reserved") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1, 100));
  for (int turn = 0; turn < 60; ++turn) {
    story.start_round();
    REQUIRE(only.wanted.phase == desired_phase::run);
    CHECK(only.wanted.round < story.kept->rounds_reserved);
    const round_number reserved = story.kept->rounds_reserved;
    story.fail(only, 1);
    story.stop_all();
    // A restart never needs a new block, because that was written while the round before it ran.
    CHECK(story.kept->rounds_reserved == reserved);
  }
}

TEST_CASE("an end is decided, persisted and announced, in this order") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(1, 1));
  story.start_round();
  story.disk_answers = false;
  story.say(only, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::closed);
  REQUIRE(story.kept->end);
  CHECK(story.kept->end->exit_code == 0);
  CHECK(only.wanted.phase == desired_phase::run);
  SECTION("to a node that is here") {
    story.disk_answers_now();
    CHECK(only.wanted.phase == desired_phase::close);
    CHECK(only.wanted.exit_code == 0);
  }
  SECTION("to a node that comes back meanwhile") {
    story.disconnect(only);
    story.connect(only);
    CHECK(only.wanted.phase == desired_phase::run);
    story.disk_answers_now();
    CHECK(only.wanted.phase == desired_phase::close);
  }
}

TEST_CASE("a run in which no node was placed is forgotten with its nodes") {
  run_story story(keeping());
  fake_node& only = story.joined("a", nodes_of(2, 2));
  REQUIRE(story.kept);
  story.goodbye(only);
  CHECK_FALSE(story.kept);
  CHECK(story.machine().forgettable(story.now));
}
