// What a successful worker leaves behind: its grace, the messages about it, and what ends it. In
// simulated time.
#include "tests/support/worker_story.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::launcher;
using tests::worker_story;
using words = std::vector<std::string>;

namespace {

workers::limits with_grace(std::optional<workers::duration> children) {
  workers::limits values = worker_story::limits();
  values.children = children;
  return values;
}

// Leaves a child, which may hold the worker's pipes open.
void leave_child(worker_story& story, workers::place worker, bool is_quiet) {
  story.process(worker).children = 1;
  story.process(worker).children_are_quiet = is_quiet;
  story.exits(worker, 0);
}

}  // namespace

TEST_CASE("worker group: what a success leaves in its group has its grace, and is told of") {
  worker_story story(2, with_grace(30s));
  story.run();
  const bool is_quiet = GENERATE(true, false);
  leave_child(story, 0, is_quiet);
  story.exits(1, 0);
  CHECK(story.words == words{"all started", "ended 1: exit code 0"});
  SECTION("it ends by itself") {
    story.pass(10s);
    CHECK(story.words.back() == "spares of 0");
    CHECK(story.process(0).signals.empty());
    story.system.end_child(story.pid_of(0));
    story.pass(1s);
    CHECK(story.words.back() == "all ended");
    CHECK(!story.said("ends of 0"));
  }
  SECTION("and is killed after it, with a word") {
    story.pass(29s);
    CHECK(story.process(0).signals.empty());
    story.pass(4s);
    CHECK(story.when("spares of 0") >= 1s);
    CHECK(story.when("spares of 0") <= 4s);
    CHECK(story.when("ends of 0") >= 30s);
    CHECK(story.when("ends of 0") <= 32s);
    CHECK(story.process(0).signals.front() == SIGKILL);
    CHECK(story.words.back() == "all ended");
  }
  SECTION("a stop ends it with the round") {
    story.pass(10s);
    story.stop(SIGTERM);
    CHECK(story.process(0).signals.front() == SIGTERM);
    story.stop(SIGKILL);
    story.pass(1s);
    CHECK(story.when("stops of 0") == 10s);
    CHECK(story.words.back() == "all ended");
    CHECK(!story.said("ends of 0"));
  }
}

TEST_CASE(
    "worker group: the grace counts from the worker's end, even if its pipes are still open") {
  worker_story story(1, with_grace(2s));
  story.run();
  const bool is_quiet = GENERATE(true, false);
  leave_child(story, 0, is_quiet);
  story.pass(10s);
  CHECK(story.when("spares of 0") <= 1200ms);
  CHECK(story.when("ends of 0") >= 2s);
  CHECK(story.when("all ended") <= 2100ms);
}

TEST_CASE("worker group: pipes that no process of ours holds are drained as long as ever") {
  worker_story story(1, with_grace(30s));
  story.run();
  ++story.process(0).holders_elsewhere;
  story.exits(0, 0);
  story.pass(10s);
  CHECK(story.when("all ended") == story.limits().drain);
  CHECK(story.words == words{"all started", "ended 0: exit code 0", "all ended"});
}

TEST_CASE("worker group: children that end at once are not reported") {
  worker_story story(1, with_grace(30s));
  story.run();
  leave_child(story, 0, true);
  story.pass(500ms);
  story.system.end_child(story.pid_of(0));
  story.pass(500ms);
  CHECK(story.words == words{"all started", "ended 0: exit code 0", "all ended"});
  CHECK(story.when("all ended") <= 600ms);
}

TEST_CASE("worker group: a worker that leaves nothing is done at once") {
  worker_story story(3, with_grace(30s));
  story.run();
  for (workers::place worker = 0; worker < 3; ++worker)
    story.exits(worker, 0);
  CHECK(story.when("all ended") == 0s);
  CHECK(story.children_looks == 3);
}

TEST_CASE("worker group: a failure's children have no grace") {
  worker_story story(1, with_grace(GENERATE(std::optional<workers::duration>(30s), std::nullopt)));
  story.run();
  story.process(0).children = 1;
  story.add_stray({0});
  story.exits(0, 3);
  story.pass(10ms);
  CHECK(story.strays.empty());
  CHECK(story.words == words{"all started", "ended 0: exit code 3", "all ended"});
}

TEST_CASE("worker group: children that wait are looked at less and less") {
  worker_story story(1, with_grace(1h));
  story.run();
  leave_child(story, 0, true);
  story.pass(1min);
  CHECK(story.children_looks >= 100);
  CHECK(story.children_looks <= 140);
}

TEST_CASE("worker group: the last round's strays have their grace, too") {
  worker_story story(2, with_grace(30s));
  story.run();
  story.add_stray({0});
  SECTION("while a worker runs the system is not asked") {
    story.exits(0, 0);
    story.pass(1h);
    CHECK(story.words == words{"all started", "ended 0: exit code 0"});
    story.exits(1, 0);
    story.pass(29s);
    CHECK(story.strays.size() == 1);
    CHECK(story.words.back() == "spares strays");
    story.pass(3s);
    CHECK(story.strays.empty());
    CHECK(story.words == words{"all started", "ended 0: exit code 0", "spares strays",
                               "ends strays", "ended 1: exit code 0", "all ended"});
  }
  SECTION("they end by themselves") {
    story.exits(0, 0);
    story.exits(1, 0);
    story.pass(10s);
    story.end_stray(0);
    story.pass(2s);
    CHECK(story.words.back() == "all ended");
    CHECK(!story.said("ends strays"));
  }
  SECTION("a stop ends them at once") {
    story.exits(0, 0);
    story.exits(1, 0);
    story.pass(10s);
    story.stop(SIGTERM);
    story.pass(10ms);
    CHECK(story.strays.empty());
    CHECK(story.said("stops strays"));
    CHECK(story.words.back() == "all ended");
  }
  SECTION("a failure of another worker ends them with it") {
    story.exits(0, 0);
    story.exits(1, 3);
    story.pass(10ms);
    CHECK(story.strays.empty());
  }
}

TEST_CASE("worker group: strays and children of a group have the same time") {
  worker_story story(1, with_grace(30s));
  story.run();
  story.add_stray({0});
  leave_child(story, 0, true);
  story.pass(40s);
  CHECK(story.words == words{"all started", "spares of 0", "ends of 0", "ends strays",
                             "ended 0: exit code 0", "all ended"});
  CHECK(story.when("all ended") <= 31s);
}

TEST_CASE("worker group: a stray that holds a pipe has the grace of its worker, then its own end") {
  worker_story story(1, with_grace(30s));
  story.run();
  story.add_stray({0, true});
  story.exits(0, 0);
  story.pass(29s);
  CHECK(story.strays.size() == 1);
  CHECK(story.said("spares of 0"));
  CHECK(!story.said("all ended"));
  story.end_stray(0);
  story.pass(2s);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: children that are kept are left alone, after one word") {
  worker_story story(2, with_grace(std::nullopt));
  story.run();
  const bool is_quiet = GENERATE(true, false);
  leave_child(story, 0, is_quiet);
  story.add_stray({1});
  story.exits(1, 0);
  story.pass(3s);
  CHECK(story.said("keeps of 0"));
  CHECK(story.said("keeps strays"));
  CHECK(story.words.back() == "all ended");
  CHECK(story.process(0).signals.empty());
  CHECK(story.process(0).children == 1);
  CHECK(story.strays.size() == 1);
}

TEST_CASE("worker group: a reader that holds the output back does not use up the grace") {
  worker_story story(1, with_grace(30s));
  story.run();
  story.reader_stops();
  leave_child(story, 0, false);
  story.pass(1min);
  CHECK(story.words == words{"all started"});
  story.reader_goes_on();
  story.pass(20s);
  CHECK(story.words.back() == "spares of 0");
  CHECK(story.process(0).signals.empty());
}
