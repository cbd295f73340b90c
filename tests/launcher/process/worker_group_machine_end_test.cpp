// How the workers of a round end: stopped, drained, their groups and strays killed, and the last
// event delayed until then. In simulated time.
#include "tests/support/worker_story.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::launcher;
using tests::worker_story;
using words = std::vector<std::string>;

namespace {

constexpr auto first_pause = 1ms;  // between two looks

}  // namespace

TEST_CASE("worker group: a worker that ignores SIGTERM gets SIGKILL once the grace is over") {
  worker_story story(2);
  story.run();
  story.process(0).ignores_term = true;
  story.stop(SIGTERM);
  CHECK(story.words == words{"all started", "ended 1: killed by SIGTERM"});
  // The agent limits the grace, so nothing is due here.
  CHECK(!story.machine().next_deadline());
  story.pass(5s);
  CHECK(story.process(0).signals == std::vector<int>{SIGTERM});
  story.stop(SIGKILL);
  CHECK(story.words.at(2) == "ended 0: killed by SIGKILL");
  CHECK(story.words.at(3) == "all ended");
  CHECK(story.passed() == 5s);
}

TEST_CASE("worker group: a signal that is asked for again is sent again") {
  worker_story story(1);
  story.run();
  story.process(0).ignores_term = true;
  story.stop(SIGINT);
  story.stop(SIGTERM);
  CHECK(story.process(0).signals == std::vector<int>{SIGINT, SIGTERM});
}

TEST_CASE("worker group: a failed worker's group is killed at once") {
  worker_story story(2);
  story.run();
  story.process(0).children = 3;
  story.exits(0, 3);
  CHECK(story.process(0).signals.front() == SIGKILL);
  CHECK(story.when("ended 0: exit code 3") == 0s);
  CHECK(story.process(1).signals.empty());
}

TEST_CASE("worker group: one that lives on is done at once, and nothing of it is touched") {
  worker_story story(2);
  story.run();
  story.process(0).children = 1;
  story.process(0).ignores_term = true;
  story.exits(1, 3);
  story.stop(SIGTERM);
  story.leaves(0);
  CHECK(story.words.back() == "all ended");
  CHECK(story.passed() == 0s);
  CHECK(story.process(0).signals == std::vector<int>{SIGTERM});
  CHECK_FALSE(story.process(0).is_reaped);
  CHECK(story.released == std::vector<workers::place>{0});
}

TEST_CASE("worker group: the last word waits for the others of one that lives on") {
  worker_story story(2);
  story.run();
  for (const workers::place worker : {0, 1})
    story.process(worker).ignores_term = true;
  story.stop(SIGTERM);
  story.leaves(0);
  CHECK(story.words.back() == "left 0");
  story.stop(SIGKILL);
  CHECK(story.words.back() == "all ended");
  CHECK(story.process(0).signals == std::vector<int>{SIGTERM});
}

TEST_CASE("worker group: no worker lives on unasked") {
  worker_story story(1);
  story.run();
  story.tell(workers::left{0});
  CHECK(story.words == words{"all started"});
  story.stop(SIGTERM);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: a successful worker's children have their moment") {
  worker_story story(1);
  story.run();
  story.process(0).children = 1;
  story.exits(0, 0);
  story.pass(1900ms);
  CHECK(story.process(0).signals.empty());
  SECTION("and end in it") {
    story.system.end_child(story.pid_of(0));
    story.settle();
    CHECK(story.released.empty());
    CHECK(story.when("all ended") == 1900ms);
  }
  SECTION("and are killed after it") {
    story.pass(1s);
    CHECK(story.process(0).signals == std::vector<int>{SIGKILL});
    CHECK(story.when("all ended") == 2s);
  }
  SECTION("which a signal ends") {
    story.stop(SIGTERM);
    CHECK(story.process(0).signals.front() == SIGTERM);
    CHECK(story.when("all ended") == 1900ms);
  }
}

TEST_CASE("worker group: a worker is drained when both of its pipes have ended") {
  worker_story story(1);
  story.run();
  story.process(0).holders_elsewhere = 1;
  story.exits(0, 0);
  story.tell(
      workers::pipe_ended{0, GENERATE(workers::output_pipe::output, workers::output_pipe::errors)});
  CHECK(!story.is_told(0));
  story.system.let_go_of_pipes(story.pid_of(0));
  story.settle();
  CHECK(story.is_told(0));
}

TEST_CASE("worker group: a pipe that never ends is let go when the limit is over") {
  worker_story story(2);
  story.run();
  story.process(0).holders_elsewhere = 1;
  const int code = GENERATE(0, 3);
  story.exits(0, code);
  story.pass(1999ms);
  CHECK(story.released.empty());
  CHECK(story.words == words{"all started"});
  story.pass(1ms);
  CHECK(story.released == std::vector<workers::place>{0});
  CHECK(story.is_told(0));
}

TEST_CASE("worker group: the time for which our reader holds a success back does not count") {
  worker_story story(1);
  story.run();
  SECTION("while it does, nothing is given up") {
    story.reader_stops();
    story.exits(0, 0);
    story.pass(1h);
    CHECK(story.released.empty());
    CHECK(story.reader_looks == 1800);
    story.reader_goes_on();
    CHECK(story.when("all ended") == 1h);
  }
  SECTION("it is not asked more often where it stops at the last moment") {
    story.process(0).children = 1;
    story.exits(0, 0);
    story.pass(1999ms);
    story.reader_stops();
    story.pass(1h);
    CHECK(story.reader_looks <= 1801);
    CHECK(story.released.empty());
  }
  SECTION("afterwards the children have what is left of their moment") {
    story.process(0).children = 1;
    story.exits(0, 0);
    story.pass(500ms);
    story.reader_stops();
    story.pass(700ms);
    story.reader_goes_on();
    story.pass(10s);
    CHECK(story.when("all ended") == 2700ms);
  }
  SECTION("nor does what it held back before the end") {
    story.process(0).children = 1;
    story.reader_stops();
    story.pass(30s);
    story.reader_goes_on();
    story.exits(0, 0);
    story.pass(10s);
    CHECK(story.when("all ended") == 32s);
  }
}

TEST_CASE("worker group: children of a worker that ends after a stop get no grace") {
  worker_story story(1);
  story.run();
  story.process(0).ignores_term = true;
  story.process(0).children = 1;
  story.stop(SIGTERM);
  story.exits(0, 0);
  CHECK(story.said("all ended"));
}

TEST_CASE("worker group: a failure, a stop and a kill wait for no reader") {
  worker_story story(2);
  story.run();
  story.reader_stops();
  SECTION("failure") {
    story.exits(0, 3);
    CHECK(story.is_told(0));
  }
  SECTION("failure, and another process holds the pipes") {
    story.process(0).holders_elsewhere = 1;
    story.exits(0, 3);
    story.pass(2s);
    CHECK(story.is_told(0));
  }
  SECTION("stop after a success") {
    story.exits(0, 0);
    story.pass(10s);
    CHECK(!story.is_told(0));
    story.stop(SIGTERM);
    CHECK(story.said("all ended"));
  }
  SECTION("a stop that comes while the reader is asked") {
    story.process(0).children = 1;
    story.process(0).ignores_term = true;
    story.exits(0, 0);
    story.stop(SIGTERM);
    story.pass(2s);
    CHECK(story.is_told(0));
  }
}

TEST_CASE("worker group: a group that never empties holds back its worker, and is looked at less") {
  worker_story story(3);
  story.run();
  story.process(0).children = 1;
  story.process(0).is_stuck = true;
  story.system.end(story.pid_of(0), {3, 0, false});
  story.settle();
  story.pass(2s);  // its child holds the pipe
  CHECK(story.released == std::vector<workers::place>{0});
  story.exits(1, 0);
  CHECK(story.words == words{"all started", "ended 1: exit code 0"});
  const int before = story.looks;
  story.pass(1min);
  const int in_a_minute = story.looks - before;
  // 1 ms apart at first, then an eighth of the time so far.
  CHECK(in_a_minute >= 100);
  CHECK(in_a_minute <= 130);
  story.pass(1h);
  CHECK(story.looks - before - in_a_minute == 3600);  // at most a second apart
  CHECK(story.machine().has_process(0));
  story.system.end_child(story.pid_of(0));
  story.pass(1s);
  CHECK(story.words.back() == "ended 0: exit code 3");
}

TEST_CASE("worker group: many workers are killed at once: one word each, few looks") {
  constexpr std::size_t workers = 1024;
  worker_story story(workers);
  story.run();
  for (workers::place worker = 0; worker < workers; ++worker)
    story.process(worker).children = 2;
  story.process(0).is_stuck = true;
  story.stop(SIGKILL);
  CHECK(story.words.size() == workers);
  CHECK(story.passed() == 0s);
  CHECK(story.looks <= static_cast<int>(workers));
  // When many workers are killed at once, their ends do not each cause a look at strays.
  CHECK(story.stray_looks == 0);
  story.pass(first_pause);
  CHECK(story.stray_looks == 1);
  story.system.free(story.pid_of(0));
  story.pass(1s);
  CHECK(story.words.size() == workers + 2);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: strays live on while a worker runs, and not beyond the last word") {
  worker_story story(2);
  story.run();
  story.add_stray({0});
  story.exits(0, 0);
  CHECK(story.said("ended 0: exit code 0"));
  story.pass(1h);
  CHECK(story.strays.size() == 1);
  CHECK(story.stray_looks == 0);
  story.exits(1, 0);
  CHECK(story.strays.empty());
  CHECK(!story.said("ended 1: exit code 0"));  // it may not be dead yet
  story.pass(first_pause);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: strays live on while a successful worker's children have their moment") {
  worker_story story(2);
  story.run();
  story.add_stray({0});
  story.process(0).children = 1;
  story.exits(0, 0);
  story.exits(1, 0);
  CHECK(story.said("ended 1: exit code 0"));
  story.pass(1999ms);
  CHECK(story.strays.size() == 1);
  story.pass(1s);
  CHECK(story.strays.empty());
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: a stray that holds a pipe is waited for, until it is let go") {
  worker_story story(1);
  story.run();
  story.add_stray({0, true});
  SECTION("a success: the moment, then its end with the last word") {
    story.exits(0, 0);
    story.pass(1999ms);
    CHECK(story.strays.size() == 1);
    story.pass(10ms);
    CHECK(story.strays.empty());
    CHECK(story.when("all ended") == 2s + first_pause);
  }
  SECTION("a stop: it is killed when none runs, not by the draining's end") {
    story.stop(SIGTERM);
    story.pass(10ms);
    CHECK(story.released.empty());
    CHECK(story.when("all ended") <= 2 * first_pause);
  }
  SECTION("a kill: strays at once, whatever is left") {
    story.process(0).is_stuck = true;
    story.stop(SIGKILL);
    story.pass(first_pause);
    CHECK(story.strays.empty());
    CHECK(!story.is_told(0));
  }
}

TEST_CASE("worker group: a polite stop spares strays while a worker runs") {
  worker_story story(2);
  story.run();
  story.process(0).ignores_term = true;
  story.add_stray({0});
  story.stop(SIGTERM);
  story.pass(10s);
  CHECK(story.strays.size() == 1);
  CHECK(story.said("ended 1: killed by SIGTERM"));
  story.exits(0, 0);
  story.pass(first_pause);
  CHECK(story.strays.empty());
  CHECK(story.words.back() == "all ended");
}

TEST_CASE(
    "worker group: strays that outlive SIGKILL hold the last word back for 5 s, and are named") {
  worker_story story(1);
  story.run();
  story.add_stray({0, false, true});
  story.exits(0, 3);
  story.pass(4900ms);
  CHECK(story.words == words{"all started"});
  story.pass(2s);
  CHECK(story.words == words{"all started", "strays stay", "ended 0: exit code 3", "all ended"});
  CHECK(story.when("strays stay") == story.when("all ended"));
  CHECK(story.when("strays stay") >= 5s);
  CHECK(story.when("strays stay") <= 6s);
}

TEST_CASE("worker group: strays are named when they alone are waited for") {
  worker_story story(1);
  story.run();
  story.add_stray({0, false, true});
  story.process(0).children = 1;
  story.process(0).is_stuck = true;
  story.exits(0, 3);
  story.stop(SIGKILL);
  story.pass(1min);
  CHECK(story.words == words{"all started"});
  story.system.free(story.pid_of(0));
  story.pass(2s);
  CHECK(story.words == words{"all started", "strays stay"});
}

TEST_CASE("worker group: where the end was asked for, strays are waited for as long as they live") {
  worker_story story(1);
  story.run();
  story.add_stray({0, false, true});
  SECTION("before the end") {
    story.stop(SIGTERM);
  }
  SECTION("after it") {
    story.exits(0, 3);
    story.pass(1s);
    story.stop(SIGTERM);
  }
  story.pass(1h);
  CHECK(story.words == words{"all started", "strays stay"});
  story.strays.front().is_stuck = false;
  story.pass(2s);
  CHECK(story.words.size() == 4);
  CHECK(story.words.back() == "all ended");
}

TEST_CASE("worker group: strays are not looked for where they cannot be found") {
  workers::limits limits = worker_story::limits();
  limits.has_strays = false;
  worker_story story(1, limits);
  story.run();
  story.stop(SIGKILL);
  CHECK(story.said("all ended"));
  CHECK(story.stray_looks == 0);
}

TEST_CASE("worker group: after the last word nothing has an effect") {
  worker_story story(1);
  story.run();
  story.exits(0, 0);
  const words told = story.words;
  story.stop(SIGKILL);
  story.start();
  story.tell(workers::pipe_ended{0, workers::output_pipe::output});
  story.pass(1h);
  CHECK(story.words == told);
}
