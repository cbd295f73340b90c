// What a waiting node says: for which run, where and how long it waits, and which nodes are
// missing; and what else it was told.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

std::vector<std::string> said(const agent_story& story, note_level level) {
  std::vector<std::string> texts;
  for (const agent_note& note : story.all<agent_note>()) {
    if (note.level == level) texts.push_back(note.text);
  }
  return texts;
}

desired wait_of(agent_story& story) {
  desired order = story.order(desired_phase::wait, 0);
  order.text = "waiting for 1 of 2 nodes; here: node-b (2 workers)";
  order.left = 600s;
  return order;
}

}  // namespace

TEST_CASE("a wait names the run, the endpoint, and what is left") {
  agent_story story;
  story.connect();
  story.forget();
  story.say(wait_of(story));
  CHECK(said(story, note_level::info) ==
        std::vector<std::string>{"run story at 10.0.0.100:29400: waiting for 1 of 2 nodes, 10 min "
                                 "left; here: node-b (2 workers)"});
  CHECK(story.machine().why(story.now() + 40s) ==
        "run story at 10.0.0.100:29400: waiting for 1 of 2 nodes, 9 min left; here: node-b (2 "
        "workers)");
}

TEST_CASE("the agent that holds the daemon says so") {
  agent_story story;
  story.daemon_is_here = true;
  story.connect();
  story.say(wait_of(story));
  CHECK(story.machine()
            .why(story.now())
            .starts_with("run story at 10.0.0.100:29400 (daemon in this process): waiting for 1 of "
                         "2 nodes, "));
}

TEST_CASE("a wait for the daemon itself says how long it is tried for") {
  agent_story story;
  story.lose_daemon();
  CHECK(story.machine().why(story.now() + 60s) ==
        "run story: waiting for the rendezvous daemon at 10.0.0.100:29400 for 60 s (Connection "
        "refused); trying for 9 min more");
  story.connect();
  story.say(wait_of(story));
  story.lose_daemon("closed");
  CHECK(story.machine().why(story.now() + 60s) ==
        "run story at 10.0.0.100:29400: waiting for 1 of 2 nodes, 9 min left; here: node-b (2 "
        "workers); no rendezvous daemon at 10.0.0.100:29400 for 60 s (closed); trying for "
        "9 min more");
}

TEST_CASE("news and warnings are said once, each at its level") {
  agent_story story;
  story.connect();
  story.forget();
  desired order = wait_of(story);
  order.warning = "different scripts";
  story.say(order);
  order.seq = ++story.desired_seq;
  story.say(order);
  CHECK(said(story, note_level::warning) == std::vector<std::string>{"different scripts"});
  story.forget();
  order = story.order(desired_phase::prepare, 1);
  order.news = "node-c was replaced by node-b";
  order.warning = "different scripts";
  story.say(order);
  CHECK(said(story, note_level::warning).empty());
  CHECK(said(story, note_level::info) == std::vector<std::string>{"node-c was replaced by node-b"});
}

TEST_CASE("a signal in a wait tells the truth about the rounds before it") {
  agent_story story;
  SECTION("there is no daemon") {
    story.tell(signal_received{SIGINT});
    CHECK(story.left->text ==
          "stopped by SIGINT while waiting for the rendezvous daemon at 10.0.0.100:29400, before a "
          "round began here");
  }
  SECTION("there was no round") {
    story.connect();
    story.say(wait_of(story));
    story.tell(signal_received{SIGINT});
    CHECK(story.left->text == "stopped by SIGINT while waiting, before a round began here");
  }
  SECTION("there was one, and all are here") {
    story.run_as_member();
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(SIGTERM);
    desired order = wait_of(story);
    order.round = 1;
    story.say(order);
    story.tell(signal_received{SIGINT});
    REQUIRE(story.left);
    CHECK(story.left->text == "stopped by SIGINT while waiting for the next round after round 1");
  }
  SECTION("there was one, and then a loss") {
    story.run_as_member();
    story.want(desired_phase::stop, 1);
    story.workers_end_by_signal(SIGTERM);
    desired order = wait_of(story);
    order.round = 1;
    order.gone = {"node-a (10.0.0.1, ranks 0 and 1) was lost", 40s, "silent for 10 s"};
    story.say(order);
    story.tell(signal_received{SIGTERM});
    REQUIRE(story.left);
    CHECK(story.left->text ==
          "stopped by SIGTERM while waiting for nodes after round 1; node-a (10.0.0.1, ranks 0 and "
          "1) was lost 40 s ago: silent for 10 s");
  }
}
