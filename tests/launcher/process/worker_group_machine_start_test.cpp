// How the workers of a round start, and what a stop does to a start. In simulated time.
#include "tests/support/worker_story.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::launcher;
using tests::fake_process;
using tests::worker_story;
using words = std::vector<std::string>;

TEST_CASE("worker group: one after the other, each once the one before has executed") {
  worker_story story(3);
  story.system.exec_hangs = true;
  story.start();
  CHECK(story.spawns == 1);
  story.pass(1h);  // an exec may take as long as it takes
  CHECK(story.spawns == 1);
  story.execs(0);
  CHECK(story.spawns == 2);
  story.execs(1);
  CHECK(!story.said("all started"));
  story.execs(2);
  CHECK(story.words == words{"all started"});
}

TEST_CASE("worker group: a worker may end before the next one is started") {
  worker_story story(2);
  story.system.exec_hangs = true;
  story.start();
  story.execs(0);
  story.exits(0, 0);
  CHECK(story.words == words{"ended 0: exit code 0"});
  story.execs(1);
  story.exits(1, 3);
  CHECK(story.words ==
        words{"ended 0: exit code 0", "all started", "ended 1: exit code 3", "all ended"});
}

TEST_CASE(
    "worker group: after a failed start no worker is started, and those that run are left alone") {
  worker_story story(4);
  story.system.exec_hangs = true;
  story.start();
  SECTION("not forked") {
    story.system.refusal = worker_story::no_such_program();
    story.execs(0);
  }
  SECTION("forked") {
    story.system.failure = worker_story::no_such_program();
    story.execs(0);
    CHECK(story.released == std::vector<workers::place>{1});
    CHECK(story.forgotten == std::vector<workers::place>{1});
  }
  SECTION("not found") {
    story.search_hangs = true;
    story.execs(0);
    story.search_fails(ENOENT);
  }
  CHECK(story.words == words{"failed 1", "not started 2", "not started 3"});
  story.pass(1h);
  CHECK(story.process(0).signals.empty());
  story.stop(SIGTERM);
  CHECK(story.words.at(3) == "ended 0: killed by SIGTERM");
  CHECK(story.words.at(4) == "all ended");
}

TEST_CASE("worker group: a start that fails alone is the last word") {
  worker_story story(1);
  story.system.refusal = worker_story::no_such_program();
  story.start();
  CHECK(story.words == words{"failed 0", "all ended"});
}

TEST_CASE("worker group: short of descriptors for 4 s, then all start; it is said once") {
  worker_story story(2);
  story.system.refusal = worker_story::shortage();
  story.start();
  CHECK(story.words == words{"short"});
  story.pass(4s);
  CHECK(story.words == words{"short"});
  story.system.refusal.reset();
  story.pass(100ms);
  CHECK(story.words == words{"short", "all started"});
  CHECK(story.spawns == 43);  // at once, every 100 ms, and the second worker
}

TEST_CASE("worker group: short of descriptors for 6 s is one failure, after 5 s") {
  SECTION("none is there to be forked") {
    worker_story none(3);
    none.system.refusal = worker_story::shortage();
    none.start();
    none.pass(4999ms);
    CHECK(none.words == words{"short"});
    none.pass(1s);
    CHECK(none.words == words{"short", "failed 0", "not started 1", "not started 2", "all ended"});
    CHECK(none.when("failed 0") == 5s);
  }
  SECTION("the child finds none") {
    worker_story child(1);
    child.system.failure = worker_story::shortage();
    child.start();
    child.pass(6s);
    CHECK(child.words == words{"short", "failed 0", "all ended"});
    CHECK(child.when("failed 0") == 5s);
    CHECK(child.system.size() == 51);  // forked each time
    CHECK(child.released.size() == 51);
  }
  SECTION("no thread looks for the program") {
    worker_story search(1);
    search.search_hangs = true;
    search.start();
    for (int count = 0; count < 51; ++count) {
      search.search_fails(EAGAIN);
      search.pass(100ms);
    }
    CHECK(search.words == words{"short", "failed 0", "all ended"});
    CHECK(search.when("failed 0") == 5s);
  }
}

TEST_CASE("worker group: each stretch of shortage has its own word and its own limit") {
  worker_story story(3);
  story.system.exec_hangs = true;
  story.start();
  story.system.refusal = worker_story::shortage();
  story.execs(0);
  story.pass(4s);
  story.system.refusal.reset();
  story.pass(100ms);
  story.system.refusal = worker_story::shortage();
  story.execs(1);
  story.pass(4s);
  CHECK(story.words == words{"short", "short"});
  story.system.refusal.reset();
  story.pass(100ms);
  story.execs(2);
  CHECK(story.words == words{"short", "short", "all started"});
}

TEST_CASE("worker group: another failure than shortage is not tried again") {
  worker_story story(1);
  story.system.refusal = worker_story::shortage();
  story.start();
  story.system.refusal = worker_story::no_such_program();
  story.pass(100ms);
  CHECK(story.words == words{"short", "failed 0", "all ended"});
}

TEST_CASE("worker group: a stop in the middle of starting, whose exec hangs") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGKILL);
  worker_story story(4);
  story.system.exec_hangs = true;
  story.start();
  story.execs(0);
  story.stop(signal);
  CHECK(story.process(0).signals.front() == signal);
  // SIGKILL instead of the signal, because it might run its program long after the round.
  CHECK(story.process(1).signals.front() == SIGKILL);
  CHECK(!story.is_spawned(2));
  CHECK(story.words.at(0) == "not started 2");
  CHECK(story.words.at(1) == "not started 3");
  CHECK(story.said("ended 1: killed by SIGKILL"));
  CHECK(story.words.back() == "all ended");
  CHECK(!story.said("all started"));
}

TEST_CASE("worker group: an exec that hangs and cannot be killed counts until it is gone") {
  worker_story story(2);
  story.system.exec_hangs = true;
  story.start();
  story.process(0).is_stuck = true;
  story.stop(SIGTERM);
  story.stop(SIGKILL);
  story.pass(24h);
  CHECK(story.words == words{"not started 1"});
  CHECK(story.machine().has_process(0));
  SECTION("it dies") {
    story.system.free(story.pid_of(0));
    story.settle();
    CHECK(story.words.at(1) == "ended 0: killed by SIGKILL");
  }
  SECTION("its exec fails") {
    fake_process& gone = story.process(0);
    gone.has_ended = gone.is_reaped = gone.could_not_start = true;
    story.tell(workers::start_failed{0, worker_story::shortage()});
    CHECK(story.words.at(1) == "failed 0");  // and it is not tried again
  }
  CHECK(story.words.back() == "all ended");
  CHECK(story.spawns == 1);
  CHECK(!story.machine().has_process(0));
}

TEST_CASE("worker group: a stop before anything was started, and while it waits") {
  worker_story story(2);
  const int signal = GENERATE(SIGTERM, SIGKILL);
  SECTION("before the start") {}
  SECTION("while the program is sought") {
    story.search_hangs = true;
    story.start();
  }
  SECTION("while it is short of something") {
    story.system.refusal = worker_story::shortage();
    story.start();
    story.pass(1s);
    story.system.refusal.reset();
    story.words.clear();
  }
  story.stop(signal);
  CHECK(!story.is_sought());
  CHECK(story.words == words{"not started 0", "not started 1", "all ended"});
  const int before = story.spawns;
  story.search_ends();
  story.start();
  story.pass(1h);
  CHECK(story.spawns == before);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: a start that is asked for after the stop starts nothing") {
  worker_story story(2);
  story.add_stray({0, false, true});  // the last word is still to come
  story.stop(SIGTERM);
  story.start();
  CHECK(!story.is_sought());
  story.pass(1h);
  CHECK(story.spawns == 0);
  CHECK(story.words == words{"not started 0", "strays stay"});
}

TEST_CASE("worker group: an answer of a search that was forgotten is not heard") {
  worker_story story(2);
  story.system.exec_hangs = true;
  story.start();
  story.search_hangs = true;
  story.execs(0);
  story.stop(SIGTERM);
  const words told = story.words;
  story.tell(workers::program_found{1});
  story.tell(workers::start_failed{1, worker_story::shortage()});
  CHECK(story.spawns == 1);
  CHECK(story.words == told);
}
