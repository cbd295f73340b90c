// A node that cannot take part says why, and the others hear of it.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace std::chrono_literals;

TEST_CASE("a node that cannot start says why, and those who wait hear it at their next heartbeat") {
  run_story story;
  const run_settings settings = nodes_of(3, 3);
  fake_node& first = story.joined("a", settings);
  fake_node& second = story.joined("b", settings);
  fake_node& unable = story.node("c", settings);
  unable.state.draining = true;
  cause why;
  why.kind = cause_class::start;
  why.node = "c";
  why.text = "train.py: No such file or directory";
  unable.state.causes = {why};
  story.connect(unable);
  CHECK(unable.wanted.phase == desired_phase::close);
  story.beat_all();
  for (const fake_node* const who : {&first, &second}) {
    CHECK(who->wanted.phase == desired_phase::wait);
    CHECK(who->wanted.warning == "c takes no part: train.py: No such file or directory");
    REQUIRE(who->wanted.gone);
    CHECK(who->wanted.gone->why == why.text);
  }
  story.goodbye(unable);
  SECTION("it ends nothing, and nobody waits for it") {
    story.goodbye(first);
    CHECK(second.wanted.phase == desired_phase::wait);
    CHECK(story.why().starts_with("waiting for 2 of 3 nodes"));
  }
  SECTION("once it is here after all it is not spoken of any more") {
    story.joined("c", settings);
    CHECK(story.why().find("takes no part") == std::string::npos);
    REQUIRE(first.wanted.phase == desired_phase::prepare);
    CHECK(first.wanted.warning.empty());
  }
}

TEST_CASE("of a node that cannot start those who wait hear though its settings are others") {
  run_story story;
  const fake_node& first = story.joined("a", nodes_of(3, 3));
  fake_node& unable = story.node("c", nodes_of(2, 2));
  unable.state.draining = true;
  cause why;
  why.kind = cause_class::start;
  why.text = "unknown option --nnode";
  unable.state.causes = {why};
  story.connect(unable);
  story.beat_all();
  CHECK(first.wanted.phase == desired_phase::wait);
  CHECK(first.wanted.warning == "c takes no part: unknown option --nnode");
}

TEST_CASE("a node that cannot start ends no run that waits for others") {
  run_story story;
  fake_node& unable = story.node("c", nodes_of(2, 2));
  unable.state.draining = true;
  cause why;
  why.kind = cause_class::start;
  why.text = "no";
  unable.state.causes = {why};
  story.connect(unable);
  story.goodbye(unable);
  fake_node& late = story.joined("a", nodes_of(2, 2));
  CHECK(late.wanted.phase == desired_phase::wait);
}
