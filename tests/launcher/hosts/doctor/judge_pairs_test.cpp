#include "launcher/hosts/doctor/judge_pairs.hpp"

#include "launcher/hosts/doctor/pairs_table.hpp"
#include "tests/launcher/hosts/doctor/cluster_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;

TEST_CASE("an interface that NCCL would take, and the others do not reach") {
  cluster_facts facts = healthy(3);
  for (node_card& card : facts.cards) {
    card.nccl_interface = "eth0";
    card.addresses.push_back({"docker0", "172.17.0.1", 1500});
  }
  CHECK(line_of(judge_nccl_interfaces(facts), "NCCL interface") == "ok: eth0 on all 3 nodes");
  facts.cards[1].nccl_interface = "docker0";
  for (const std::uint32_t from : {0, 2})
    pair(facts, from, 1).paths.push_back({"172.17.0.1", 40000, path_answer::refused, ""});
  const findings found = judge_nccl_interfaces(facts);
  CHECK(trouble_of(found, "NCCL interface") ==
        "error: on node-1 NCCL takes docker0 (172.17.0.1), at which the others do not reach it");
  CHECK(found[0].advice.starts_with("export NCCL_SOCKET_IFNAME=eth0, "));
  CHECK(line_of(judge_nccl_interfaces(healthy(2)), "NCCL interface") == "nothing");
}

TEST_CASE("clocks that differ: the node that is wrong is named") {
  cluster_facts facts = healthy(3);
  for (const std::uint32_t other : {0, 1}) {
    pair(facts, other, 2).clock_ahead = 5'000'000;
    pair(facts, 2, other).clock_ahead = -5'000'000;
  }
  const findings found = judge_clocks(facts);
  REQUIRE(found.size() == 1);
  CHECK(trouble_of(found, "clocks") == "warning: node-2 is 5.0 s ahead of the others");
  cluster_facts two = healthy(2);
  pair(two, 0, 1).clock_ahead = -700'000;
  pair(two, 1, 0).clock_ahead = 700'000;
  REQUIRE(judge_clocks(two).size() == 1);
  CHECK(trouble_of(judge_clocks(two), "clocks") ==
        "warning: node-0 is 700.0 ms ahead of the other");
}

TEST_CASE("far clocks are not known better than half a round trip") {
  cluster_facts facts = healthy(2);
  pair(facts, 0, 1).round_trip = 400'000;
  pair(facts, 0, 1).clock_ahead = 250'000;
  CHECK(line_of(judge_clocks(facts), "clocks").starts_with("ok: "));
}

TEST_CASE("that not all pairs of many nodes were tried is said") {
  CHECK(line_of(judge_reach(healthy(128)), "connections").ends_with("at random ports"));
  CHECK(line_of(judge_reach(healthy(129)), "connections")
            .ends_with("at random ports; each node has tried 8 of its 128 others, as not all pairs "
                       "are beyond 128 nodes"));
}

TEST_CASE("round trips that are long, all or one") {
  cluster_facts facts = healthy(3);
  CHECK(line_of(judge_speed(facts), "round trip") == "ok: 100 us to 100 us");
  pair(facts, 0, 2).round_trip = 40'000;
  CHECK(trouble_of(judge_speed(facts), "round trip") ==
        "warning: 100 us to 40.0 ms, in the middle 100 us; the longest: node-0 -> node-2");
  for (const std::uint32_t from : {0, 1}) {
    for (const std::uint32_t to : {0, 1, 2}) {
      if (from != to) pair(facts, from, to).round_trip = 40'000;
    }
  }
  CHECK(trouble_of(judge_speed(facts), "round trip") == "warning: 100 us to 40.0 ms");
}

TEST_CASE("the slowest pairs") {
  cluster_facts facts = healthy(3);
  double speed = 1000;
  for (const std::uint32_t from : {0, 1, 2}) {
    for (const std::uint32_t to : {0, 1, 2}) {
      if (from != to) pair(facts, from, to).mib_per_second = speed++;
    }
  }
  CHECK(line_of(judge_speed(facts), "bandwidth").starts_with("ok: 1000 to 1005 MiB/s"));
  pair(facts, 2, 1).mib_per_second = 110;
  CHECK(trouble_of(judge_speed(facts), "bandwidth") ==
        "warning: 110 to 1004 MiB/s, in the middle 1002; the slowest: node-2 -> node-1 110, node-0 "
        "-> node-1 1000, node-0 -> node-2 1001");
}

TEST_CASE("names that are not known, or lead elsewhere") {
  cluster_facts facts = healthy(3);
  CHECK(line_of(judge_names(facts), "names of nodes") == "ok: 6 of 6 look-ups find the node");
  pair(facts, 0, 1).name = name_answer::unknown;
  pair(facts, 2, 1).name = name_answer::unknown;
  pair(facts, 1, 0).name = name_answer::other;
  pair(facts, 1, 0).name_text = "127.0.1.1";
  const findings found = judge_names(facts);
  CHECK(trouble_of(found, "names of nodes") == "warning: 3 of 6 look-ups find the node");
  CHECK(trouble_of(found, "names of nodes", 1) ==
        "warning: node-0 is 127.0.1.1, not its own address, on node-1");
  CHECK(trouble_of(found, "names of nodes", 2) ==
        "warning: node-1 is not known on node-0 and node-2");
}

TEST_CASE("a name service that is slow") {
  cluster_facts facts = healthy(2);
  pair(facts, 0, 1).name_time = 4'000'000;
  CHECK(trouble_of(judge_names(facts), "names of nodes") ==
        "warning: every node finds all names, after up to 4.0 s");
}

TEST_CASE("a table of all pairs") {
  cluster_facts facts = healthy(2);
  set_answers(pair(facts, 1, 0), path_answer::no_route, "No route to host");
  CHECK(pairs_table(facts) ==
        "round trips       to 0       to 1\n"
        " 0  node-0           -    0.10 ms\n"
        " 1  node-1    no route          -\n");
  facts.seen[1].reset();
  pair(facts, 0, 1).mib_per_second = 1200;
  CHECK(
      pairs_table(facts).ends_with("MiB/s            to 0       to 1\n"
                                   " 0  node-0          -       1200\n"
                                   " 1  node-1          ?          -\n"));
  CHECK(pairs_table(healthy(13)).empty());
  CHECK(pairs_table(healthy(1)).empty());
}

TEST_CASE("addresses that lead back to another name, or to no answer") {
  cluster_facts facts = healthy(3);
  CHECK(line_of(judge_addresses(facts), "addresses of nodes") ==
        "ok: 6 of 6 look-ups lead back to the node's name");
  // Common in clouds, and harmless.
  pair(facts, 0, 1).named = name_answer::unknown;
  CHECK(line_of(judge_addresses(facts), "addresses of nodes") ==
        "ok: 5 of 6 look-ups lead back to the node's name");
  for (const std::uint32_t from : {0, 1}) {
    pair(facts, from, 2).named = name_answer::other;
    pair(facts, from, 2).named_text = "old-name";
  }
  pair(facts, 2, 0).named = name_answer::late;
  const findings found = judge_addresses(facts);
  REQUIRE(found.size() == 3);
  CHECK(trouble_of(found, "addresses of nodes", 1) ==
        "warning: 10.0.0.1 of node-0 has no answer on node-2");
  CHECK(trouble_of(found, "addresses of nodes", 2) ==
        "warning: 10.0.0.3 of node-2 is old-name on node-0 and node-1");
}
