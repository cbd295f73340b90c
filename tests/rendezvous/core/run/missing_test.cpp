// Who is missing, by name, wherever it went: DESIGN.md, rule 1.
#include "tests/support/catch.hpp"
#include "tests/support/restart_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("a node that is lost in a pause between quick failures is named") {
  pair_story story(restarting(2, 2, 0));
  fail_round(story, *story.b, 1);
  story.start_round();
  fail_round(story, *story.b, 2);
  REQUIRE(story.view().phase == run_phase::settling);
  SECTION("in the pause") {
    story.guardian(*story.b);
    story.pass(600ms);
    REQUIRE(story.view().phase == run_phase::settling);
  }
  SECTION("when it is over") {
    story.guardian(*story.b);
    story.pass(3s);
    REQUIRE(story.view().phase == run_phase::gathering);
  }
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) was lost");
  CHECK_THAT(story.why(), Contains("; b (10.0.0.2, ranks 2 and 3) was lost "));
}

TEST_CASE("a node that is lost while nodes gather is named, and who takes its place") {
  const run_settings settings = nodes_of(3, 3);
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  story.start_round();
  story.guardian(c);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::gathering);
  story.guardian(b);
  story.pass(1s);
  REQUIRE(a.wanted.gone);
  CHECK(a.wanted.gone->what == "c (10.0.0.3, ranks 4 and 5) and 1 more node were lost");
  story.joined("d", settings);
  story.joined("e", settings);
  story.start_round();
  CHECK_THAT(a.wanted.news, Catch::Matchers::StartsWith("c and b were replaced by d and e"));
}

TEST_CASE("who was replaced is told by the round that starts, not by one that never did") {
  pair_story story;
  story.guardian(*story.b);
  story.stop_all();
  story.pass(1s);
  fake_node& c = story.joined("c", nodes_of(2, 2));
  REQUIRE(story.a->wanted.phase == desired_phase::prepare);
  SECTION("its leader is lost") {
    story.guardian(*story.a);
    story.pass(1s);
    story.joined("d", nodes_of(2, 2));
    story.start_round();
    CHECK_THAT(c.wanted.news, Catch::Matchers::StartsWith("b and a were replaced by c and d"));
  }
  SECTION("a member of it is lost") {
    story.guardian(c);
    story.pass(1s);
    story.stop_all();
    story.pass(1s);
    story.joined("d", nodes_of(2, 2));
    story.start_round();
    CHECK_THAT(story.a->wanted.news, Catch::Matchers::StartsWith("b was replaced by d"));
  }
}

TEST_CASE("a node that leaves while it waits is named to the others who wait") {
  const run_settings settings = nodes_of(3, 3);
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  SECTION("by Ctrl-C") {
    story.goodbye(b);
    story.pass(1s);
    REQUIRE(a.wanted.gone);
    CHECK(a.wanted.gone->what == "b (10.0.0.2) left");
    SECTION("until the same host is back") {
      fake_node& again = story.node("b", settings);
      again.peer_address = b.peer_address;
      story.connect(again);
      story.pass(1s);
      CHECK_FALSE(a.wanted.gone);
    }
    SECTION("the first round has no news of it") {
      story.joined("c", settings);
      story.joined("d", settings);
      story.start_round();
      CHECK(a.wanted.news.empty());
    }
  }
  SECTION("as it is lost") {
    story.guardian(b);
    story.pass(1s);
    REQUIRE(a.wanted.gone);
    CHECK(a.wanted.gone->what == "b (10.0.0.2) was lost");
  }
  SECTION("nobody is left to hear of it") {
    story.goodbye(b);
    story.goodbye(a);
    fake_node& c = story.joined("c", settings);
    story.pass(1s);
    CHECK_FALSE(c.wanted.gone);
  }
}

TEST_CASE("a spare that left while a round was on is not missing afterwards") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  pair_story story(settings);
  fake_node& c = story.joined("c", settings);
  story.goodbye(c);
  story.guardian(*story.b);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) was lost");
}
