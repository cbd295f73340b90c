// rank_policy exact: node ranks that a person gives are the group ranks, whoever dies and returns.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

run_settings exact(std::uint32_t nodes) {
  run_settings settings = nodes_of(nodes, nodes);
  settings.ranks = rank_policy::exact;
  settings.restarts_max = 5;
  return settings;
}

struct ranks_story : run_story {
  fake_node& come(const std::string& host, std::uint32_t nodes, std::optional<std::uint32_t> rank) {
    fake_node& made = node(host, exact(nodes));
    made.greeting.node_rank = rank;
    connect(made);
    return made;
  }
};

std::uint32_t group_rank_of(const fake_node& who) {
  REQUIRE(who.wanted.phase == desired_phase::run);
  REQUIRE(who.wanted.assignment);
  return who.wanted.assignment->group_rank;
}

}  // namespace

TEST_CASE("exact node ranks are the group ranks, in whatever order nodes come and are called") {
  ranks_story story;
  fake_node& two = story.come("a", 3, 2);
  fake_node& zero = story.come("c", 3, 0);
  CHECK(story.why() ==
        "waiting for 1 of 3 nodes (node rank 1); here: a (2 workers), c (2 workers)" +
            story.why().substr(story.why().find("; for ")));
  fake_node& one = story.come("b", 3, 1);
  story.start_round();
  CHECK(group_rank_of(zero) == 0);
  CHECK(group_rank_of(one) == 1);
  CHECK(group_rank_of(two) == 2);
}

TEST_CASE("missing node ranks are named where they are not too many") {
  const auto missing = [](std::uint32_t nodes, const std::vector<std::uint32_t>& here) {
    ranks_story story;
    for (const std::uint32_t rank : here)
      story.come("host", nodes, rank);
    const std::string why = story.why();
    const std::size_t first = why.find(" nodes") + 6;
    return why.substr(first, why.find(';') - first);
  };
  CHECK(missing(2, {0}) == " (node rank 1)");
  CHECK(missing(3, {0}) == " (node ranks 1 and 2)");
  CHECK(missing(9, {0, 4, 6}) == " (node ranks 1 to 3, 5, 7 and 8)");
  CHECK(missing(60, {0, 30}) == " (node ranks 1 to 29 and 31 to 59)");
  CHECK(missing(65, {0}) == " (node ranks 1 to 64)");
  CHECK(missing(66, {0}).empty());
}

TEST_CASE("who comes in place of a dead node gets its rank, and no survivor moves") {
  ranks_story story;
  fake_node& zero = story.come("z", 2, 0);
  fake_node& one = story.come("b", 2, 1);
  story.start_round();
  story.guardian(zero);
  story.stop_all();
  story.pass(1s);
  CHECK(one.wanted.text.find("waiting for 1 of 2 nodes (node rank 0)") != std::string::npos);
  fake_node& again = story.come("y", 2, 0);
  story.start_round();
  CHECK(group_rank_of(again) == 0);
  CHECK(group_rank_of(one) == 1);
}

TEST_CASE("a node rank that another has is refused with both named") {
  ranks_story story;
  fake_node& zero = story.come("a", 3, 0);
  const std::string said =
      "node rank 0 is already used by a at 10.0.0.1: give each node its own "
      "--node-rank, from 0 to 2";
  SECTION("before the first round") {
    CHECK(story.come("b", 3, 0).refusal == said);
    CHECK(story.come("b", 3, 1).refusal.empty());
  }
  SECTION("while a round is on") {
    story.come("b", 3, 1);
    story.come("c", 3, 2);
    story.start_round();
    CHECK(story.come("d", 3, 0).refusal == said);
  }
  SECTION("by one that came to be fenced") {
    fake_node& stray = story.node("stray", exact(3));
    stray.greeting.node_rank = 0;
    stray.state.instance = 4711;
    stray.state.round = 9;
    stray.state.phase = member_phase::running;
    story.come("b", 3, 1);
    story.come("c", 3, 2);
    story.start_round();
    story.connect(stray);
    CHECK(stray.wanted.phase == desired_phase::fence);
    story.rejoin(stray);
    CHECK(stray.refusal == said);
  }
  CHECK(zero.refusal.empty());
}

TEST_CASE("an exact node rank must be there, and below the number of nodes") {
  ranks_story story;
  CHECK(story.come("a", 2, 2).refusal.find(
            "node rank 2 among 2 nodes: give each node its own --node-rank, from 0 to 1") !=
        std::string::npos);
  CHECK(
      story.come("a", 2, std::nullopt).refusal.find("no node rank among 2 nodes: give each node") !=
      std::string::npos);
  fake_node& elastic = story.node("a", exact(2));
  elastic.greeting.settings.nodes_min = 1;
  elastic.greeting.node_rank = 0;
  story.connect(elastic);
  CHECK(elastic.refusal.find("nnodes is 1:2: where --node-rank is the group rank") !=
        std::string::npos);
}

TEST_CASE(
    "one that takes a silent node's rank waits until that is lost, and is then in its place") {
  ranks_story story;
  fake_node& zero = story.come("a", 2, 0);
  fake_node& one = story.come("b", 2, 1);
  story.start_round();
  story.pass(4s, {&one});
  fake_node& other = story.come("b2", 2, 1);  // b's host lost power: nothing has told us
  CHECK(other.refusal.empty());
  CHECK(other.wanted.phase == desired_phase::wait);
  SECTION("it is lost") {
    story.pass(30s, {&one});
    story.stop_all();
    story.pass(60s, {&one});
    story.start_round();
    CHECK(group_rank_of(zero) == 0);
    CHECK(group_rank_of(other) == 1);
  }
  SECTION("it is heard of again: the other is left waiting, and steps in when it dies") {
    story.beat_all();
    story.pass(20s);
    CHECK(story.view().phase == run_phase::running);
    CHECK(group_rank_of(one) == 1);
    story.guardian(one);
    story.stop_all();
    story.pass(1s);
    story.start_round();
    CHECK(group_rank_of(zero) == 0);
    CHECK(group_rank_of(other) == 1);
  }
}
