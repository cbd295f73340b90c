// A node that was left out and is needed again: DESIGN.md, rule 13.
#include "tests/support/catch.hpp"
#include "tests/support/restart_story.hpp"

#include <algorithm>
#include <csignal>
#include <string>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

// a, in which the daemon lives, is left out after its first failure.
struct left_out_host : run_story {
  explicit left_out_host(std::uint32_t least, std::uint32_t most)
      : least_settings(restarting(least, most)) {
    least_settings.node_failures_max = 1;
    least_settings.timing.backoff_max = 0s;
    a = &node("a", least_settings);
    a->greeting.hosts_daemon = true;
    a->local_address = a->peer_address;
    connect(*a);
    b = &joined("b", least_settings);
  }
  void leave_out_a() {
    fail_round(*this, *a, 3);
    start_round();
  }
  run_settings least_settings;
  fake_node* a = nullptr;
  fake_node* b = nullptr;
};

const std::string why_a_waits =
    "; it is left out, as its workers were the first to fail once (--max-node-failures), and "
    "steps in again when no other node is left";

}  // namespace

TEST_CASE("a node that is left out and waits is told so, and no spare's words") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  story.pass(1s);
  CHECK(story.a->wanted.phase == desired_phase::wait);
  CHECK(story.a->wanted.text ==
        "this node waits without workers: round 2 of 1 node and 2 workers runs" + why_a_waits);
  story.disconnect(*story.a);
  story.connect(*story.a);
  CHECK(story.a->wanted.text ==
        "this node waits without workers: round 2 of 1 node and 2 workers runs" + why_a_waits);
}

TEST_CASE("a node that is left out steps in again when too few are left without it") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  REQUIRE(story.b->wanted.phase == desired_phase::run);
  SECTION("as another is lost") {
    story.guardian(*story.b);
  }
  SECTION("as the last other one is asked to leave") {
    story.ask_to_leave(*story.b, SIGTERM);
    story.stop_all();
  }
  story.pass(3s);
  story.start_round();
  REQUIRE(story.a->wanted.phase == desired_phase::run);
  CHECK(story.a->wanted.assignment->group_world_size == 1);
  const std::string in_again =
      "a is in again, though its workers were the first to fail once: without it too few nodes "
      "are left";
  CHECK_THAT(story.a->wanted.news, StartsWith("b was replaced by a"));
  CHECK_THAT(story.a->wanted.news, EndsWith("; " + in_again));
  CHECK(std::count(story.notes.begin(), story.notes.end(), in_again) == 1);
  CHECK_THAT(story.why(), !Contains("left out"));
}

TEST_CASE("a node that was needed again is left out again when it is not") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  story.guardian(*story.b);
  story.pass(3s);
  story.start_round();
  fake_node& c = story.joined("c", story.least_settings);
  fail_round(story, *story.a, 5);
  CHECK_THAT(story.a->reports.back().text,
             Contains("without a, whose workers were the first to fail twice"));
  story.say(c);
  story.start_round();
  CHECK(c.wanted.phase == desired_phase::run);
  story.pass(1s);
  CHECK(story.a->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that is left out does not step in where that would not be enough") {
  left_out_host story(2, 3);
  fake_node& c = story.joined("c", story.least_settings);
  story.start_round();
  story.leave_out_a();
  REQUIRE(c.wanted.phase == desired_phase::run);
  story.guardian(*story.b);
  story.guardian(c);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK_THAT(story.a->wanted.text, StartsWith("waiting for 2 of 2 to 3 nodes"));
  CHECK_THAT(story.a->wanted.text, EndsWith("when fewer than 2 others are left"));
  fake_node& d = story.joined("d", story.least_settings);
  story.pass(2s);
  story.start_round();
  CHECK(story.a->wanted.phase == desired_phase::run);
  CHECK(d.wanted.phase == desired_phase::run);
}

TEST_CASE("of those that are left out as many step in as are needed, who failed least first") {
  run_settings settings = restarting(2, 4);
  settings.node_failures_max = 2;
  settings.timing.backoff_max = 0s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  fake_node& d = story.joined("d", settings);
  story.start_round();
  for (const int code : {3, 4}) {
    fail_round(story, c, code);
    story.start_round();
  }
  REQUIRE_THAT(c.refusal, StartsWith("run story goes on without this node"));
  // Too few are here: whoever is left out may wait.
  story.guardian(a);
  story.guardian(b);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::gathering);
  fake_node& again = story.node("c", settings);
  again.peer_address = c.peer_address;
  SECTION("one that comes again is let in where it is needed") {
    story.connect(again);
    CHECK(again.refusal == "");
    story.pass(2s);
    story.start_round();
    CHECK(again.wanted.phase == desired_phase::run);
    CHECK(d.wanted.phase == desired_phase::run);
  }
  SECTION("it waits where it is not enough, and goes when it is not needed") {
    story.guardian(d);
    story.connect(again);
    CHECK(again.refusal == "");
    story.joined("e", settings);
    REQUIRE(story.view().phase == run_phase::gathering);
    CHECK_THAT(story.why(), !Contains("left out"));  // e and c are two
  }
}
