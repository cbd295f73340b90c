// Two jobs at one endpoint: what one leaves behind does not concern the next.
#include "tests/support/catch.hpp"
#include "tests/support/journal_story.hpp"

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

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

TEST_CASE("a job pays nothing for the record of another, and waits for nobody of it") {
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
  SECTION("of which nobody comes") {
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

TEST_CASE("an instance of which nobody is left gives way to another job") {
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
  SECTION("and who comes back of it is told so") {
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
      "this id is in use: choose another with --rdzv-id; else ask for more "
      "nodes with --nnodes or --spares";
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
    CHECK(joined_of(story, "f", job).refusal.find("; if this is another job, this id") !=
          std::string::npos);
}
