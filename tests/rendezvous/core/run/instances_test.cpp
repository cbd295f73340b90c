// The end of an instance and the beginning of the next: which nodes are told what, that nothing of
// the one counts in the other, and whose job it is.
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"
#include "tests/support/orphans_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

struct instance_story : run_story {
  explicit instance_story(run_settings settings = nodes_of(2, 2), core::run_options options = {})
      : run_story(std::move(options)) {
    a = &joined("a", settings);
    b = &joined("b", settings);
    start_round();
    first = view().instance;
  }
  fake_node* a = nullptr;
  fake_node* b = nullptr;
  instance_id first = 0;
};

}  // namespace

TEST_CASE("a node that comes back to a closed instance is told all about its end") {
  core::run_options options;
  options.epoch = 6;
  instance_story story(nodes_of(2, 2, 1), options);
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  story.fail(*story.a, 4);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);
  story.b->state.desired_seq = 4000;
  story.connect(*story.b);
  const desired& told = story.b->wanted;
  CHECK(told.phase == desired_phase::close);
  CHECK(told.epoch == 6);
  CHECK(told.instance == story.first);
  CHECK(told.round == 2);
  CHECK(told.seq > 4000);
  CHECK(told.restarts_used == 1);
  CHECK(told.exit_code == 4);
  REQUIRE(told.root_cause);
  CHECK(told.root_cause->code == 4);
  CHECK(told.text == "a: rank 0 (local rank 0) exited with code 4; the only restart is used");
  CHECK(story.b->wanted.exit_code == story.a->wanted.exit_code);
  // It is told again when its connection breaks before it has left.
  const std::size_t before = story.b->desired_count;
  story.connect(*story.b);
  CHECK(story.b->desired_count == before + 1);
  CHECK(story.b->wanted.phase == desired_phase::close);
}

TEST_CASE(
    "a node that was away at the close and had forgotten its instance is known by its session") {
  instance_story story;
  story.say(*story.b, member_phase::succeeded);
  story.disconnect(*story.b);
  const bool given_up = GENERATE(false, true);
  story.pass(given_up ? 3s : 1s);
  story.say(*story.a, member_phase::succeeded);
  story.b->state = {};
  SECTION("it has not heard of it") {
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::close);
    CHECK(story.b->wanted.instance == story.first);
  }
  SECTION("one that was there and cannot have left yet, either") {
    story.disconnect(*story.a);
    story.a->state = {};
    story.connect(*story.a);
    CHECK(story.a->wanted.phase == desired_phase::close);
  }
  SECTION("one that said goodbye has: it is of the next instance") {
    story.goodbye(*story.a);
    story.a->state = {};
    story.connect(*story.a);
    CHECK(story.a->wanted.phase == desired_phase::wait);
    CHECK(story.view().instance != story.first);
  }
  SECTION("for an hour") {
    story.now += 1h;
    story.connect(*story.b);
    CHECK(story.b->wanted.phase == desired_phase::wait);
  }
}

TEST_CASE("a node that died for certain before the close is not waited for after it") {
  instance_story story;
  story.say(*story.b, member_phase::succeeded);
  story.guardian(*story.b);
  story.say(*story.a, member_phase::succeeded);
  REQUIRE(story.view().phase == run_phase::closed);
  story.b->state = {};
  story.b->connection = 0;
  story.connect(*story.b);
  CHECK(story.b->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that leaves after the close is forgotten at once, and the run an hour later") {
  instance_story story;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.view().members.size() == 2);
  story.disconnect(*story.a);
  story.goodbye(*story.b);
  CHECK(story.view().members.empty());
  const time_point closed = story.now;
  CHECK_FALSE(story.machine().forgettable(closed + 1h - 1ms));
  CHECK(story.machine().forgettable(closed + 1h));
}

TEST_CASE("a fenced node is told of the close once it has killed its workers") {
  instance_story story(nodes_of(1, 2));
  fake_node& stray = story.node("stray", story.a->greeting.settings);
  stray.state.instance = 4711;
  stray.state.round = 9;
  stray.state.phase = member_phase::running;
  story.connect(stray);
  REQUIRE(stray.wanted.phase == desired_phase::fence);
  const std::size_t told = stray.desired_count;
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  CHECK(stray.desired_count == told);
  story.rejoin(stray);
  CHECK(stray.wanted.phase == desired_phase::close);
  CHECK(stray.wanted.instance == story.first);
}

TEST_CASE("an instance begins with nothing of the one before") {
  instance_story story(nodes_of(1, 2, 3));
  story.guardian(*story.b);
  story.stop_all();
  story.pass(600ms);
  story.start_round();
  story.fail(*story.a, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().restarts_used == 1);
  REQUIRE(story.view().node_losses == 1);
  story.step(core::operator_stop_requested{"maintenance"});
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(*story.a);

  run_settings other = nodes_of(2, 2, 1);
  fake_node& c = story.joined("c", other);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(story.view().instance != story.first);
  CHECK(story.view().restarts_used == 0);
  CHECK(story.view().node_losses == 0);
  CHECK_FALSE(story.view().root_cause);
  CHECK_FALSE(story.view().settings);
  CHECK(story.view().world_size == 0);
  CHECK(story.view().master_port == 0);
  CHECK(c.wanted.restarts_used == 0);
  fake_node& d = story.joined("d", other);
  story.start_round();
  CHECK(story.view().round == 1);
  // It restarts, is charged, and is stopped by a person, like any other.
  story.fail(d, 1);
  story.stop_all();
  CHECK(story.view().phase == run_phase::preparing);
  CHECK(story.view().restarts_used == 1);
  story.start_round();
  story.step(core::operator_stop_requested{"again"});
  story.stop_all();
  CHECK(c.wanted.exit_code == 143);
  CHECK(c.wanted.text == "stopped by an operator: again");
}

TEST_CASE("a drain or a join that was under way at a close does not reach the next instance") {
  run_settings settings = nodes_of(1, 2, 0);
  settings.on_join = join_policy::restart;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  story.pass(1s);
  story.start_round();
  SECTION("a join") {
    fake_node& b = story.joined("b", settings);
    story.step(core::operator_stop_requested{"x"});
    story.stop_all();
    story.goodbye(b);
  }
  SECTION("a drain") {
    story.ask_to_leave(a, SIGTERM);
    story.stop_all();
    story.pass(600ms);
  }
  REQUIRE(story.view().phase == run_phase::closed);
  story.goodbye(a);
  fake_node& c = story.joined("c", nodes_of(1, 1, 0));
  story.start_round();
  story.fail(c, 7);
  story.stop_all();
  CHECK(c.wanted.phase == desired_phase::close);
  CHECK(c.wanted.exit_code == 7);
}

TEST_CASE("before the first node has come, and after the close, there is nothing to stop") {
  run_story story;
  story.step(core::operator_stop_requested{"too early"});
  fake_node& a = story.joined("a", nodes_of(1, 1));
  CHECK(a.wanted.phase == desired_phase::prepare);
  story.start_round();
  story.say(a, member_phase::succeeded);
  const std::size_t told = a.desired_count;
  story.step(core::operator_stop_requested{"too late"});
  CHECK(a.desired_count == told);
  CHECK(story.view().exit_code == 0);
  story.goodbye(a);
  CHECK(story.joined("b", nodes_of(1, 1)).wanted.phase == desired_phase::prepare);
}

TEST_CASE("an operator's stop stops the round with the drain's grace, and waits for no lost node") {
  instance_story story(nodes_of(1, 2));
  SECTION("of a round that runs") {
    story.step(core::operator_stop_requested{"maintenance"});
    CHECK(story.a->wanted.phase == desired_phase::stop);
    CHECK(story.a->wanted.grace == 30s);
    CHECK(story.a->wanted.signal == 0);
    CHECK(story.a->wanted.text == "stopped by an operator: maintenance");
    CHECK(story.a->wanted.is_unreported);
    const std::size_t told = story.a->desired_count;
    story.step(core::operator_stop_requested{"maintenance, again"});
    CHECK(story.a->desired_count == told);
  }
  SECTION("of one that is being stopped") {
    story.fail(*story.b, 3);
    story.step(core::operator_stop_requested{"maintenance"});
    CHECK(story.a->wanted.grace == 5s);
  }
  SECTION("of one with a node that cannot be reached") {
    story.disconnect(*story.b);
    story.pass(2s);
    REQUIRE(story.view().phase == run_phase::stopping);
    story.step(core::operator_stop_requested{"maintenance"});
  }
  story.stop_all();
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.exit_code == 143);
  REQUIRE(story.a->wanted.root_cause);
  CHECK(story.a->wanted.root_cause->kind == cause_class::operator_stop);
  CHECK(story.view().restarts_used == 0);
}

TEST_CASE(
    "a drain is seen once: its node is told once, and the quiet after it is not made longer") {
  instance_story story(nodes_of(1, 2));
  story.ask_to_leave(*story.b, SIGTERM);
  CHECK(story.a->wanted.grace == 30s);
  const time_point asked = story.now;
  story.now += 400ms;
  story.say(*story.b);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::drain);
  CHECK(why.code == SIGTERM);
  CHECK(why.group_rank == 1);
  CHECK(why.round == 1);
  CHECK(why.node == "b");
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(*story.machine().next_deadline() == asked + 500ms);
}

TEST_CASE("a node that is asked to leave while its round stops, for another reason") {
  instance_story story(nodes_of(1, 2));
  story.fail(*story.a, 1);
  const time_point failed = story.now;
  story.now += 200ms;
  // Others may be asked to leave, too, so the choice waits for `settle`.
  story.ask_to_leave(*story.b, SIGTERM);
  story.stop_all();
  REQUIRE(story.view().phase == run_phase::settling);
  CHECK(*story.machine().next_deadline() == failed + 700ms);
  story.pass(600ms);
  CHECK(story.b->wanted.phase == desired_phase::close);
  CHECK(story.b->wanted.exit_code == 0);
  CHECK(story.a->wanted.phase == desired_phase::prepare);
}

TEST_CASE("nodes that wait and are asked to leave leave with 0, but the last with the signal") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.ask_to_leave(a, SIGTERM);
  CHECK(a.wanted.phase == desired_phase::close);
  CHECK(a.wanted.exit_code == 0);
  CHECK(a.wanted.text == "this node was asked to leave; the run goes on without it");
  CHECK(story.view().phase == run_phase::gathering);
  story.goodbye(a);
  b.state.draining = true;
  story.say(b);
  CHECK(b.wanted.exit_code == 128 + SIGTERM);  // if no signal is named
  CHECK(story.view().phase == run_phase::closed);
}

TEST_CASE("a member that is asked to leave while its round is prepared ends that round") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  REQUIRE(story.view().phase == run_phase::preparing);
  story.ask_to_leave(b, SIGTERM);
  CHECK(a.wanted.phase == desired_phase::stop);
  story.stop_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
  CHECK(b.wanted.phase == desired_phase::close);
  CHECK(b.wanted.exit_code == 0);
}

// Whose job it is.

namespace {

const started_job first_job{"a1", "train_a.py", "09:00", "node-0"};
const started_job second_job{"b2", "train_b.py", "10:31", "node-a"};
const std::string taken =
    "another job (train_b.py, started 10:31 on node-a) has taken this endpoint";

core::run_options opened_by(const started_job& job, core::run_options options = {}) {
  options.opened_by = job;
  return options;
}

core::run_record record_of_first() {
  core::run_record record = open_record();
  record.job = first_job;
  return record;
}

fake_node& node_of(run_story& story, const std::string& name, const std::optional<started_job>& job,
                   const run_settings& settings = nodes_of(2, 2)) {
  fake_node& made = story.node(name, settings);
  made.greeting.job = job;
  return made;
}

fake_node& joined_of(run_story& story, const std::string& name,
                     const std::optional<started_job>& job,
                     const run_settings& settings = nodes_of(2, 2)) {
  fake_node& made = node_of(story, name, job, settings);
  story.connect(made);
  return made;
}

fake_node& survivor_of(run_story& story, const std::string& name, std::uint32_t group_rank,
                       const std::optional<started_job>& job) {
  fake_node& made = survivor(story, name, group_rank);
  made.greeting.job = job;
  return made;
}

void expect_displaced(const fake_node& who) {
  CHECK(who.connection == 0);
  CHECK(who.refusal_code == displaced_exit_code);
  CHECK(who.refusal.find(taken) == 0);
  CHECK(who.refusal.find("give each its own --rdzv-id") != std::string::npos);
}

}  // namespace

TEST_CASE("agents that dial on are told that another job has opened their endpoint") {
  run_story story(opened_by(second_job));
  fake_node& left = survivor_of(story, "left", 1, first_job);
  SECTION("when they come before its own nodes") {
    story.connect(left);
    expect_displaced(left);
    joined_of(story, "a", second_job);
    joined_of(story, "b", started_job{"c3", "train_b.py", "10:32", "node-b"});
  }
  SECTION("while it gathers") {
    joined_of(story, "a", second_job);
    story.connect(left);
    expect_displaced(left);
    joined_of(story, "b", second_job);
  }
  SECTION("while it runs") {
    joined_of(story, "a", second_job);
    joined_of(story, "b", second_job);
    story.start_round();
    story.connect(left);
    expect_displaced(left);
  }
  if (story.view().phase != run_phase::running) story.start_round();
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 100);
  CHECK(story.view().member_count == 2);
}

TEST_CASE("a job that stands alone at its daemon displaces what an earlier one has left, too") {
  run_story story;
  joined_of(story, "a", second_job);
  fake_node& left = survivor_of(story, "left", 0, first_job);
  story.connect(left);
  expect_displaced(left);
}

TEST_CASE("agents of the same job are taken in again, whatever their own arguments are") {
  // They repeat what they were told about their instance.
  run_story story(opened_by(first_job));
  fake_node& a = survivor_of(story, "a", 0, first_job);
  fake_node& b = survivor_of(story, "b", 1, first_job);
  story.connect(a);
  story.connect(b);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 42);
}

TEST_CASE("a node that does not say what it started, or has a run id of its own, is believed") {
  const std::optional<started_job> said =
      GENERATE(std::optional<started_job>(),
               std::optional(started_job{"", "train_a.py", "09:00", "node-0"}));
  run_story story(opened_by(second_job));
  fake_node& a = survivor_of(story, "a", 0, said);
  fake_node& b = survivor_of(story, "b", 1, said);
  story.connect(a);
  story.connect(b);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().instance == 42);
}

TEST_CASE("nodes that gather with other arguments are never refused for them") {
  run_story story;
  fake_node& a = joined_of(story, "a", first_job);
  fake_node& b = joined_of(story, "b", second_job);
  story.start_round();
  CHECK(a.wanted.phase == desired_phase::run);
  CHECK(b.wanted.phase == desired_phase::run);
  CHECK(a.wanted.job == first_job);
  CHECK(b.wanted.job == first_job);
}

TEST_CASE("a job is charged nothing from another's record, and waits for none of its nodes") {
  run_story story(opened_by(second_job, keeping(record_of_first())));
  fake_node& a = joined_of(story, "a", second_job, nodes_of(1, 1));
  CHECK(a.wanted.phase == desired_phase::prepare);
  CHECK(a.wanted.instance == 100);
  CHECK(a.wanted.restarts_used == 0);
  CHECK(a.wanted.round == 1);
  story.start_round();
  REQUIRE(story.kept);
  CHECK(story.kept->instance == 100);
  CHECK(story.kept->job == second_job);
}

TEST_CASE("the same job goes on with its record") {
  started_job again = first_job;
  again.started = "11:00";
  run_story story(opened_by(again, keeping(record_of_first())));
  fake_node& a = joined_of(story, "a", again);
  joined_of(story, "b", second_job);
  story.pass(11s);
  CHECK(a.wanted.phase == desired_phase::prepare);
  CHECK(a.wanted.instance == 42);
  CHECK(a.wanted.restarts_used == 1);
  CHECK(a.wanted.job == first_job);
}

TEST_CASE("a daemon that stands alone gives a record to its job, and to no other") {
  run_story story(keeping(record_of_first()));
  fake_node& a = joined_of(story, "a", second_job);
  SECTION("of which one node is among those that come") {
    joined_of(story, "b", first_job);
    story.pass(11s);
    CHECK(a.wanted.instance == 42);
    CHECK(a.wanted.restarts_used == 1);
  }
  SECTION("of which no node comes") {
    joined_of(story, "b", second_job);
    story.pass(9s);
    CHECK(a.wanted.phase == desired_phase::wait);
    story.pass(2s);
    CHECK(a.wanted.phase == desired_phase::prepare);
    CHECK(a.wanted.instance == 100);
    CHECK(a.wanted.restarts_used == 0);
  }
  SECTION("of which one comes with the script of that name and other arguments") {
    story.disconnect(a);
    fake_node& b = joined_of(story, "b", started_job{"c3", "train_a.py", "10:40", "node-b"});
    joined_of(story, "c", started_job{"d4", "train_a.py", "10:40", "node-c"});
    story.pass(11s);
    CHECK(b.wanted.instance == 42);
    CHECK(b.wanted.restarts_used == 1);
    CHECK(b.wanted.job == first_job);
  }
  SECTION("also while another one waits there") {
    fake_node& left = survivor_of(story, "c", 0, first_job);
    fake_node& other = survivor_of(story, "d", 1, first_job);
    story.connect(left);
    story.connect(other);
    CHECK(story.view().instance == 42);
    CHECK(left.wanted.phase == desired_phase::run);
  }
}

TEST_CASE("a record that does not say whose it is counts") {
  run_story story(opened_by(second_job, keeping(open_record())));
  fake_node& a = joined_of(story, "a", second_job);
  joined_of(story, "b", second_job);
  story.pass(11s);
  CHECK(a.wanted.instance == 42);
  CHECK(a.wanted.restarts_used == 1);
  CHECK(a.wanted.job == second_job);
}

TEST_CASE("of a job that is over, another one waits for no workers; the same one does") {
  core::run_record record = closed_record(1);
  record.job = first_job;
  record.nodes = 1;
  record.gone_after = 60s;
  const bool is_same = GENERATE(true, false);
  run_story story(opened_by(is_same ? first_job : second_job, keeping(record)));
  fake_node& a = joined_of(story, "a", is_same ? first_job : second_job, nodes_of(1, 1));
  CHECK(a.wanted.phase == (is_same ? desired_phase::wait : desired_phase::prepare));
}

TEST_CASE("an instance without living nodes gives way to another job") {
  run_story story;
  fake_node& a = joined_of(story, "a", first_job);
  fake_node& b = joined_of(story, "b", first_job);
  story.start_round();
  story.fail(a, 1);
  story.stop_all();
  for (fake_node* const one : {&a, &b}) {
    story.disconnect(*one);
    story.guardian(*one);
  }
  story.pass(20s);
  CHECK(story.view().phase == run_phase::gathering);
  fake_node& c = joined_of(story, "c", second_job, nodes_of(1, 1));
  CHECK(c.wanted.phase == desired_phase::prepare);
  CHECK(c.wanted.instance == 101);
  CHECK(c.wanted.restarts_used == 0);
  SECTION("and a node of it that comes back is told so") {
    a.state.instance = 100;
    story.connect(a);
    CHECK(a.wanted.phase == desired_phase::close);
    CHECK(a.wanted.exit_code == displaced_exit_code);
    CHECK(a.wanted.text == taken);
  }
}

TEST_CASE("a newcomer of another job that is refused is told what runs here, and since when") {
  // For a standalone daemon, and for one in that job's agent.
  run_story story(GENERATE(core::run_options{}, opened_by(first_job)));
  joined_of(story, "a", first_job);
  joined_of(story, "b", started_job{"b3", "train_a.py", "09:01", "node-1"});
  const std::string of_theirs = "the one here (train_a.py, started 09:00 on node-0), ";
  const std::string in_use =
      "give it another --rdzv-id, because this one is in use; otherwise raise --nnodes or "
      "--spares";
  CHECK(joined_of(story, "c", second_job).refusal ==
        "run story is full: 2 nodes are here; if train_b.py is a different job from " + of_theirs +
            in_use);
  // Its arguments differ, but it may be a node of that job.
  CHECK(joined_of(story, "d", started_job{"c3", "train_a.py", "10:32", "node-b"}).refusal ==
        "run story is full: 2 nodes are here; if this is a different job from " + of_theirs +
            in_use);
  CHECK(joined_of(story, "e", second_job, nodes_of(3, 3)).refusal ==
        "e has nnodes 3:3, the run 2:2: start all nodes of run story with the same options; if "
        "train_b.py is a different job from " +
            of_theirs + "give it its own --rdzv-id");
  // The same job, and a node that does not say what it started.
  for (const std::optional<started_job>& job :
       {std::optional(first_job), std::optional<started_job>()})
    CHECK(joined_of(story, "f", job).refusal.find("; if this is another job, give it another") !=
          std::string::npos);
}
