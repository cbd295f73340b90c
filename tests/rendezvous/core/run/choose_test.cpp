// Rule 2: which nodes are in the next round, with which ranks; of nodes with the same id or rank,
// only one is.
#include "rendezvous/core/run/choose.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

namespace {

// The hosts by group rank, "b2 a0" with their first ranks.
std::string told(const std::vector<rank_candidate>& candidates, std::uint32_t nodes_max) {
  std::string text;
  for (const assigned_ranks& ranks : assign_ranks(candidates, nodes_max).by_group_rank) {
    if (!text.empty()) text += ' ';
    text += std::string(candidates[ranks.candidate].host) + ":" + std::to_string(ranks.rank_first);
  }
  return text;
}

rank_candidate joiner(std::string_view host, std::uint64_t order = 0, std::uint32_t workers = 1) {
  return {host, std::nullopt, std::nullopt, order, workers};
}

rank_candidate survivor(std::string_view host, std::uint32_t group_rank) {
  return {host, std::nullopt, group_rank, 100 + group_rank, 1};
}

}  // namespace

TEST_CASE("ranks are prefix sums of worker counts that may differ") {
  CHECK(told({joiner("a", 1, 2), joiner("b", 2, 3), joiner("c", 3, 1)}, 3) == "a:0 b:2 c:5");
  CHECK(assign_ranks({joiner("a", 1, 2), joiner("b", 2, 3)}, 2).world_size == 5);
}

TEST_CASE("ranks within a role are prefix sums over its nodes, in the order of group ranks") {
  const auto of_role = [](std::string_view host, std::uint32_t workers, std::string_view role) {
    rank_candidate made = joiner(host, 0, workers);
    made.role = role;
    return made;
  };
  const auto mixed = assign_ranks({of_role("d", 5, "train"), of_role("a", 2, "train"),
                                   of_role("b", 3, "read"), of_role("c", 4, "train")},
                                  4);
  std::vector<std::optional<ddprun::role_ranks>> in_role;
  for (const assigned_ranks& ranks : mixed.by_group_rank)
    in_role.push_back(ranks.in_role);
  CHECK(in_role == std::vector<std::optional<ddprun::role_ranks>>{
                       ddprun::role_ranks{0, 11}, ddprun::role_ranks{0, 3},
                       ddprun::role_ranks{2, 11}, ddprun::role_ranks{6, 11}});
  CHECK(mixed.by_group_rank.at(3).rank_first == 9);
  SECTION("nothing is said where all that are chosen have one role") {
    const auto same = assign_ranks({of_role("a", 2, "train"), of_role("b", 3, "read")}, 1);
    CHECK_FALSE(same.by_group_rank.at(0).in_role);
  }
}

TEST_CASE("the first round is in natural order of host names, then join order") {
  CHECK(told({joiner("node10", 1), joiner("node2", 2), joiner("node2", 3)}, 3) ==
        "node2:0 node2:1 node10:2");
  const auto twins = assign_ranks({joiner("x", 9), joiner("x", 4)}, 2);
  CHECK(twins.by_group_rank.at(0).candidate == 1);
}

TEST_CASE("a node-rank hint goes before host names") {
  rank_candidate hinted = joiner("z", 5);
  hinted.node_rank = 3;
  rank_candidate first = joiner("y", 6);
  first.node_rank = 0;
  CHECK(told({joiner("a", 1), hinted, first}, 3) == "y:0 z:1 a:2");
}

TEST_CASE("survivors keep their group ranks, holes are filled, then closed up") {
  CHECK(told({survivor("a", 0), survivor("c", 2), joiner("d")}, 3) == "a:0 d:1 c:2");
  CHECK(told({survivor("a", 0), survivor("d", 3)}, 4) == "a:0 d:1");
  CHECK(told({survivor("a", 0), survivor("d", 3), joiner("e")}, 4) == "a:0 e:1 d:2");
  CHECK(told({survivor("a", 0), survivor("b", 1), joiner("0")}, 3) == "a:0 b:1 0:2");
}

TEST_CASE("group rank 0 goes to a survivor while there is one") {
  CHECK(told({joiner("a"), survivor("c", 2), survivor("b", 1)}, 3) == "b:0 a:1 c:2");
  CHECK(told({joiner("a"), survivor("z", 5)}, 3) == "z:0 a:1");
}

TEST_CASE("members of the last round are chosen before joiners, up to max") {
  CHECK(told({joiner("a"), survivor("y", 1), survivor("z", 0)}, 2) == "z:0 y:1");
}

TEST_CASE("the choice does not depend on the order of the candidates") {
  std::vector<rank_candidate> all = {joiner("n3", 1, 2), survivor("n9", 1), joiner("n1", 3, 4),
                                     survivor("n2", 4), joiner("n3", 2, 1)};
  std::sort(all.begin(), all.end(),
            [](const auto& left, const auto& right) { return left.join_order < right.join_order; });
  const std::string expected = told(all, 4);
  do {
    CHECK(told(all, 4) == expected);
  } while (std::next_permutation(all.begin(), all.end(), [](const auto& left, const auto& right) {
    return left.join_order < right.join_order;
  }));
}

TEST_CASE("natural order compares runs of digits as numbers") {
  CHECK(natural_less("node2", "node10"));
  CHECK_FALSE(natural_less("node10", "node2"));
  CHECK(natural_less("rack1-node10", "rack2-node1"));
  CHECK(natural_less("a", "a1"));
  CHECK(natural_less("node02", "node2"));
  CHECK_FALSE(natural_less("node2", "node02"));
  CHECK_FALSE(natural_less("x", "x"));
  CHECK(natural_less("n99999999999999999998", "n99999999999999999999"));
}

TEST_CASE("the master address is the leader's own towards the daemon") {
  CHECK(choose_master_address({{"", "10.0.0.1", "10.0.0.1", "10.0.0.9"},
                               {"", "10.0.0.2", "10.0.0.2", "10.0.0.9"}}) == "10.0.0.1");
  CHECK(choose_master_address({{"", "::ffff:10.0.0.1", "", ""}, {"", "", "10.0.0.2", ""}}) ==
        "10.0.0.1");
}

TEST_CASE("an address that the user gave is used before any other") {
  CHECK(choose_master_address({{"ib0.node-a", "10.0.0.1", "10.0.0.1", ""}}) == "ib0.node-a");
}

TEST_CASE("a round of one node is dialled on loopback, because no other node dials it") {
  CHECK(choose_master_address({{"", "10.0.0.1", "10.0.0.1", "10.0.0.9"}}) == "127.0.0.1");
  CHECK(choose_master_address({{"", "2001:db8::1", "", ""}}) == "127.0.0.1");
  CHECK(choose_master_address({{"", "", "10.0.0.1", ""}}) == "127.0.0.1");
  CHECK(choose_master_address({{"", "::1", "::1", "::1"}}) == "::1");
  CHECK(choose_master_address({{"10.0.0.1", "127.0.0.1", "", ""}}) == "10.0.0.1");
}

TEST_CASE("what the daemon sees is used where the own address leads nowhere") {
  CHECK(choose_master_address({{"", "169.254.3.4", "10.0.0.1", "10.0.0.9"},
                               {"", "", "10.0.0.2", "10.0.0.9"}}) == "10.0.0.1");
  CHECK(choose_master_address({{"", "fe80::1%eth0", "2001:db8::1", "2001:db8::9"},
                               {"", "", "2001:db8::2", "2001:db8::9"}}) == "2001:db8::1");
}

TEST_CASE("a leader beside an embedded daemon is dialled where the others reached the daemon") {
  CHECK(choose_master_address({{"", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
                               {"", "10.0.0.2", "::ffff:10.0.0.2", "::ffff:10.0.0.1"}}) ==
        "10.0.0.1");
}

TEST_CASE("on one host loopback is fine") {
  CHECK(choose_master_address({{"", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
                               {"", "127.0.0.1", "127.0.0.1", "127.0.0.1"}}) == "127.0.0.1");
  CHECK(choose_master_address({}).empty());
}

// rank_policy exact: the node ranks that a person gives are the group ranks, whichever node dies
// and returns.
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

TEST_CASE("a node that replaces a dead one gets its rank, and no survivor moves") {
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
  story.now += 1ms;
  const std::string said =
      "node rank 0 is already used by a at 10.0.0.1: give each node its own "
      "--node-rank, from 0 to 2";
  SECTION("before the first round") {
    fake_node& again = story.come("b", 3, 0);
    CHECK(story.come("b", 3, 1).refusal.empty());
    story.say(zero);
    CHECK(again.refusal == said);
  }
  SECTION("while a round is on") {
    story.come("b", 3, 1);
    story.come("c", 3, 2);
    story.start_round();
    story.now += 1ms;
    fake_node& again = story.come("d", 3, 0);
    story.say(zero);
    CHECK(again.refusal == said);
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
    story.now += 1ms;
    story.connect(stray);
    CHECK(stray.wanted.phase == desired_phase::fence);
    story.rejoin(stray);
    story.say(zero);
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

TEST_CASE("a node from the same host is refused at once if its exact rank is in use") {
  ranks_story story;
  fake_node& zero = story.come("a", 2, 0);
  fake_node& again = story.node("b", exact(2));
  again.greeting.node_rank = 0;
  again.peer_address = zero.peer_address;
  story.connect(again);
  CHECK(again.refusal.find("node rank 0 is already used by a") == 0);
}

TEST_CASE("a node that replaces one whose host has just died waits until the loss is known") {
  ranks_story story;
  const bool have_one_id = GENERATE(true, false);
  const auto come_for_one = [&](const std::string& host) -> fake_node& {
    fake_node& made = story.node(have_one_id ? "b" : host, exact(2));
    made.greeting.node_is_explicit = have_one_id;
    made.greeting.node_rank = 1;
    story.connect(made);
    return made;
  };
  fake_node& zero = story.come("a", 2, 0);
  fake_node& one = come_for_one("b");
  story.start_round();
  // Its last heartbeat was a moment ago, so it cannot be told from a node that lives.
  story.pass(500ms, {&one});
  fake_node& other = come_for_one("b2");
  CHECK(other.refusal.empty());
  CHECK(other.wanted.phase == desired_phase::wait);
  SECTION("it is dead") {
    story.pass(34s, {&one});
    story.stop_all();
    story.pass(60s, {&one});
    story.start_round();
    CHECK(group_rank_of(zero) == 0);
    CHECK(group_rank_of(other) == 1);
  }
  SECTION("it is not: the other is refused with its next word") {
    story.say(zero);
    CHECK(other.refusal.empty());
    story.say(one);
    CHECK(other.refusal.find("node rank 1 is already used by b at ") == 0);
    CHECK(one.refusal.empty());
    CHECK(story.view().phase == run_phase::running);
  }
}

TEST_CASE(
    "a node that takes a silent node's rank waits until that node is lost, then gets its place") {
  ranks_story story;
  fake_node& zero = story.come("a", 2, 0);
  fake_node& one = story.come("b", 2, 1);
  story.start_round();
  story.pass(4s, {&one});
  fake_node& other = story.come("b2", 2, 1);  // b's host lost power, which is not known yet
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

// Of the nodes that come with the same --node-id, one takes part.
namespace {

struct ids_story : run_story {
  fake_node& come(const std::string& id, const run_settings& settings = nodes_of(2, 2),
                  const std::string& address = {}) {
    fake_node& made = node(id, settings);
    made.greeting.node_is_explicit = true;
    if (!address.empty()) made.peer_address = address;
    connect(made);
    return made;
  }
};

const std::string advice = ": give each node its own --node-id";

bool waits(const fake_node& who) {
  return who.refusal.empty() && who.wanted.phase == desired_phase::wait;
}

}  // namespace

TEST_CASE("a node id that is used on the same host is refused at once") {
  ids_story story;
  fake_node& first = story.come("a");
  CHECK(story.come("a", nodes_of(2, 2), first.peer_address).refusal ==
        "node id a is already used by a node at 10.0.0.1" + advice);
  CHECK(first.refusal.empty());
}

TEST_CASE("a node id that is used on another host is refused at the next message from that host") {
  ids_story story;
  fake_node& first = story.come("a");
  story.now += 1ms;
  fake_node& twin = story.come("a");
  CHECK(waits(twin));
  CHECK(story.view().phase == run_phase::gathering);  // the two of them are not two nodes
  CHECK(story.why().find("waiting for 1 of 2 nodes") == 0);
  story.say(first);
  CHECK(twin.refusal == "node id a is already used by a node at 10.0.0.1" + advice);
  fake_node& other = story.come("b");
  story.start_round();
  CHECK(first.wanted.phase == desired_phase::run);
  CHECK(other.wanted.phase == desired_phase::run);
}

TEST_CASE(
    "a node that joins with a dead node's id waits until that node is lost, then gets its place") {
  ids_story story;
  const bool is_elastic = GENERATE(false, true);
  const run_settings settings = is_elastic ? nodes_of(1, 2) : nodes_of(2, 2);
  fake_node& one = story.come("a", settings);
  fake_node& two = story.come("b", settings);
  story.start_round();
  // Before and after the time that counts as silence; its connection has not been closed.
  story.pass(GENERATE(as<duration>(), 500ms, 4s), {&two});
  fake_node& again = story.come("b", settings);
  CHECK(waits(again));
  CHECK(story.view().phase == run_phase::running);
  story.pass(34s, {&two});
  story.stop_all();
  story.pass(60s, {&two});
  story.start_round();
  CHECK(one.wanted.phase == desired_phase::run);
  CHECK(again.wanted.phase == desired_phase::run);
  CHECK(again.wanted.assignment->group_world_size == 2);
}

TEST_CASE("a node that joins with the id of a living member is refused, even if there is room") {
  ids_story story;
  fake_node& one = story.come("a", nodes_of(1, 3));
  fake_node& two = story.come("b", nodes_of(1, 3));
  story.pass(60s);
  story.start_round();
  story.pass(100ms, {&one, &two});
  fake_node& twin = story.come("b", nodes_of(1, 3));
  CHECK(waits(twin));
  story.say(one);
  CHECK(waits(twin));
  story.say(two);
  CHECK(twin.refusal.find("node id b is already used by a node at 10.0.0.2") == 0);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("of two nodes that join for one dead node the second is refused") {
  ids_story story;
  fake_node& one = story.come("a");
  fake_node& two = story.come("b");
  story.start_round();
  story.pass(500ms, {&two});
  fake_node& first = story.come("b");
  story.now += 1ms;
  fake_node& second = story.come("b");
  story.say(first);
  CHECK(waits(first));
  CHECK(second.refusal.find("node id b is already used by a node at " + first.peer_address) == 0);
  story.say(one);
}

TEST_CASE("a member that was only silent keeps its place; its successor steps in when it dies") {
  ids_story story;
  fake_node& one = story.come("a");
  fake_node& two = story.come("b");
  story.start_round();
  story.pass(4s, {&two});
  fake_node& again = story.come("b");
  story.pass(20s);
  CHECK(story.view().phase == run_phase::running);
  CHECK(two.wanted.phase == desired_phase::run);
  CHECK(waits(again));
  story.guardian(two);
  story.stop_all();
  story.pass(1s);
  story.start_round();
  CHECK(one.wanted.phase == desired_phase::run);
  CHECK(again.wanted.phase == desired_phase::run);
}

TEST_CASE(
    "the id of a node whose round a new daemon takes over is in use from its first message on") {
  orphans_story story(2, nodes_of(2, 2));
  fake_node& member = *story.members[1];
  member.greeting.node_is_explicit = true;
  story.connect(member);
  story.now += 1ms;
  fake_node& twin = story.node("n1", story.settings);
  twin.greeting.node_is_explicit = true;
  story.connect(twin);
  CHECK(waits(twin));
  story.say(member);
  CHECK(twin.refusal.find("node id n1 is already used by a node at " + member.peer_address) == 0);
  story.connect(*story.members[0]);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("an explicit id is free again when its node has left, or its instance is closed") {
  run_story story;
  const auto explicit_node = [&](const char* name) -> fake_node& {
    fake_node& made = story.node(name, nodes_of(1, 2));
    made.greeting.node_is_explicit = true;
    made.peer_address = "10.0.0.1";  // a node from another host may replace it
    story.connect(made);
    return made;
  };
  fake_node& first = explicit_node("a");
  SECTION("left") {
    story.goodbye(first);
    CHECK(explicit_node("a").refusal.empty());
    CHECK(explicit_node("a").refusal.find("node id a is already used") == 0);
  }
  SECTION("away for the moment") {
    story.disconnect(first);
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("told that it is over") {
    story.ask_to_leave(first, SIGTERM);
    REQUIRE(first.wanted.phase == desired_phase::close);
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("heard of less than three heartbeats ago") {
    story.now += 3s - 1ms;
    CHECK_FALSE(explicit_node("a").refusal.empty());
    story.now += 1ms;
    CHECK(explicit_node("a").refusal.empty());
  }
  SECTION("of another name") {
    CHECK(explicit_node("b").refusal.empty());
  }
  SECTION("one that did not choose its name") {
    CHECK(story.joined("a", nodes_of(1, 2)).refusal.empty());
  }
}

TEST_CASE("when an earlier session of a node leaves, the later one keeps the name") {
  run_story story;
  fake_node& first = story.node("a", nodes_of(1, 3));
  first.greeting.node_is_explicit = true;
  story.connect(first);
  story.now += 5s;
  fake_node& second = story.node("a", nodes_of(1, 3));
  second.greeting.node_is_explicit = true;
  story.connect(second);
  REQUIRE(second.refusal.empty());
  story.goodbye(first);
  fake_node& third = story.node("a", nodes_of(1, 3));
  third.greeting.node_is_explicit = true;
  third.peer_address = second.peer_address;
  story.connect(third);
  CHECK(third.refusal.find("node id a is already used") == 0);
}
