#include "launcher/hosts/doctor/judge_cluster.hpp"

#include "launcher/hosts/doctor/report.hpp"
#include "tests/launcher/hosts/doctor/cluster_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;

TEST_CASE("nodes that are well") {
  const findings found = judge_cluster(healthy(3));
  for (const finding& each : found)
    CHECK(each.state == health::ok);
  CHECK(line_of(found, "nodes") == "ok: 3 of 3 came: node-0, node-1, node-2");
  CHECK(line_of(found, "connections") ==
        "ok: 6 of 6 pairs (each in both directions) reach each other at random ports");
  CHECK(line_of(found, "versions") ==
        "ok: the same on all: NCCL 2.30.7, PyTorch 2.15.0, ddprun 0.1.0");
  CHECK(line_of(found, "clocks") == "ok: within 50 us");
  CHECK(line_of(judge_cluster(healthy(32)), "nodes") == "ok: 32 of 32 came: all 32 nodes");
}

TEST_CASE("a node that did not come, and one that went") {
  cluster_facts facts = healthy(3);
  facts.wanted = {5, 5};
  facts.gone[2] = "has said nothing for 6 s";
  facts.seen[2].reset();
  set_answers(pair(facts, 0, 2), path_answer::refused, "Connection refused");
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "nodes").starts_with("error: 3 of 5 came: "));
  CHECK(trouble_of(found, "nodes", 1) == "error: node-2 came, and has said nothing for 6 s");
  // That a lost node does not answer is reported already.
  CHECK(line_of(found, "connections").starts_with("ok: 2 of 2 pairs "));
}

TEST_CASE("of MIN:MAX nodes MIN are enough") {
  cluster_facts facts = healthy(3);
  facts.wanted = {2, 4};
  CHECK(line_of(judge_cluster(facts), "nodes") == "ok: 3 of 2 to 4 came: node-0, node-1, node-2");
  facts.wanted = {4, 8};
  CHECK(trouble_of(judge_cluster(facts), "nodes").starts_with("error: 3 of 4 to 8 came: "));
}

TEST_CASE("a firewall before one node is one line, however many are kept out") {
  cluster_facts facts = healthy(32);
  for (std::uint32_t from = 0; from < 32; ++from) {
    if (from != 7) set_answers(pair(facts, from, 7), path_answer::no_answer, "timed out");
  }
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "connections").starts_with("error: 961 of 992 pairs "));
  CHECK(trouble_of(found, "connections", 1) ==
        "error: node-0, node-1, node-2, node-3 and 27 more -> node-7 (10.0.0.8 port 40000 and 2 "
        "more): Connection timed out");
  CHECK(trouble_of(found, "connections", 2) == "nothing");
}

TEST_CASE("a firewall that lets one node out nowhere is one line, too") {
  cluster_facts facts = healthy(32);
  for (std::uint32_t to = 0; to < 32; ++to) {
    if (to != 7) set_answers(pair(facts, 7, to), path_answer::refused, "Connection refused");
  }
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "connections", 1) ==
        "error: node-7 -> node-0, node-1, node-2, node-3 and 27 more: Connection refused");
  CHECK(trouble_of(found, "connections", 2) == "nothing");
}

TEST_CASE("many troubles are counted beyond ten lines") {
  cluster_facts facts = healthy(20);
  for (std::uint32_t from = 0; from < 20; ++from) {
    const std::uint32_t to = (from + 1) % 20;
    set_answers(pair(facts, from, to), path_answer::no_route, "No route to host");
  }
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "connections", 11) == "error: likewise 10 other pairs");
  CHECK(trouble_of(found, "connections", 12) == "nothing");
}

TEST_CASE("some of the random ports, and a stranger that answers in place of a node") {
  cluster_facts facts = healthy(3);
  set_answers(pair(facts, 0, 1), path_answer::refused, "Connection refused", 2);
  set_answers(pair(facts, 1, 2), path_answer::other_node, facts.cards[0].token);
  set_answers(pair(facts, 2, 0), path_answer::stranger, "");
  pair(facts, 2, 1).paths[0].what = path_answer::stalled;
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "connections", 1) ==
        "error: node-0 -> node-1 (10.0.0.2 port 40002, of 3 ports tried): Connection refused");
  CHECK(trouble_of(found, "connections", 2).ends_with(": node-0 answers there"));
  CHECK(trouble_of(found, "connections", 3).ends_with(": another program answers there"));
  CHECK(trouble_of(found, "large packets") ==
        "error: node-2 -> node-1 (10.0.0.2 port 40000, of 3 ports tried): connections open, and "
        "large packets are lost");
}

TEST_CASE("one address on two hosts, and two doctors on one") {
  cluster_facts facts = healthy(3);
  facts.cards[2].address = facts.cards[1].address;
  CHECK(trouble_of(judge_cluster(facts), "addresses") ==
        "error: node-1 and node-2 both have 10.0.0.2");
  facts.cards[2].host = facts.cards[1].host;
  CHECK(trouble_of(judge_cluster(facts), "addresses") == "nothing");
  CHECK(trouble_of(judge_cluster(facts), "hosts") == "warning: node-1 and node-2 are one host");
}

TEST_CASE("versions that differ") {
  cluster_facts facts = healthy(3);
  facts.cards[1].versions["NCCL"] = "2.28.9";
  facts.cards[2].versions["PyTorch"] = "";
  const findings found = judge_cluster(facts);
  CHECK(trouble_of(found, "NCCL versions") ==
        "error: 2.28.9 on node-1, 2.30.7 on node-0 and node-2");
  CHECK(trouble_of(found, "PyTorch versions") ==
        "warning: none on node-2, 2.15.0 on node-0 and node-1");
  CHECK(line_of(found, "versions") == "ok: the same on all: ddprun 0.1.0");
}

TEST_CASE("NCCL's own diagnostics are named where it has them: from 2.31 on") {
  cluster_facts facts = healthy(2);
  CHECK(line_of(judge_cluster(facts), "NCCL diagnostics") == "nothing");
  const auto with = [&](const std::string& version) {
    for (node_card& card : facts.cards)
      card.versions["NCCL"] = version;
    return line_of(judge_cluster(facts), "NCCL diagnostics");
  };
  CHECK(with("2.31.1").starts_with("ok: NCCL 2.31.1 has its own, of GPUs and the links between "));
  CHECK(with("3.0.2").starts_with("ok: NCCL 3.0.2 has its own"));
  for (const char* const older : {"", "unknown", "2.4.8", "2.30.9", "1.40.0"})
    CHECK(with(older) == "nothing");
}

TEST_CASE("a folder that is shared, that is not, and that caches") {
  cluster_facts facts = healthy(2);
  facts.folder = "/data";
  facts.seen[0]->folder = folder_seen{"", "nfs", {{1, 20'000}}, {{1, 3'000'000}}};
  facts.seen[1]->folder = folder_seen{"", "nfs", {{0, 10'000}}, {{0, 10'000}}};
  CHECK(line_of(judge_cluster(facts), "shared folder") ==
        "ok: /data (nfs) is one folder: new files are seen after 0.02 s, changes after 3 s");
  facts.seen[0]->folder->changed[1].reset();
  CHECK(trouble_of(judge_cluster(facts), "shared folder")
            .ends_with("; 1 of 2 saw no change within "
                       "10 s"));
  facts.seen[0]->folder->appeared[1].reset();
  CHECK(trouble_of(judge_cluster(facts), "shared folder") ==
        "error: /data (nfs): node-0 saw none of the others' files");
  facts.seen[1]->folder = folder_seen{"/data: No such file or directory", "", {}, {}};
  CHECK(trouble_of(judge_cluster(facts), "shared folder") ==
        "error: /data: No such file or directory on node-1");
}

TEST_CASE("what several nodes find wrong with themselves is said once") {
  cluster_facts facts = healthy(4);
  for (const std::uint32_t node : {0, 2})
    facts.cards[node].own = {{"disk", health::error, "/tmp: 0 KiB free", "make room"}};
  facts.cards[3].own = {{"clock", health::warning, "not synchronised", ""}};
  const findings found = judge_cluster(facts);
  CHECK(line_of(found, "disk") == "error: node-0 and node-2: /tmp: 0 KiB free: make room");
  CHECK(line_of(found, "clock") == "warning: node-3: not synchronised");
  CHECK(exit_code_of(found) == 1);
}
