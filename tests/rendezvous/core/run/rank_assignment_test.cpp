#include "rendezvous/core/run/rank_assignment.hpp"

#include "rendezvous/core/run/master_address.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>

using namespace ddprun::core;

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
  SECTION("nothing is said where all who are chosen have one role") {
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

TEST_CASE("what the person gave wins") {
  CHECK(choose_master_address({{"ib0.node-a", "10.0.0.1", "10.0.0.1", ""}}) == "ib0.node-a");
}

TEST_CASE("a round of one node is dialled on loopback, for nobody else has to") {
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
