#include "launcher/hosts/doctor/cluster_json.hpp"

#include "tests/launcher/hosts/doctor/cluster_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;

TEST_CASE("a card and what was seen come back as they went") {
  cluster_facts facts = healthy(2);
  node_card card = facts.cards[0];
  card.nodes = {2, 3};
  card.folder = "/data";
  card.wants_bandwidth = true;
  card.nccl_interface = "ib0";
  card.own = {{"disk", health::error, "full", "make room"}};
  const auto read = decode_card(encode(card));
  REQUIRE(read);
  CHECK(encode(*read) == encode(card));
  CHECK(read->own[0].state == health::error);
  node_seen seen = *facts.seen[0];
  seen.folder = folder_seen{"", "nfs", {{1, 5}}, {{1, std::nullopt}}};
  seen.peers[1].mib_per_second = 12.5;
  const auto back = decode_seen(encode(seen), 2);
  REQUIRE(back);
  CHECK(encode(*back) == encode(seen));
  CHECK_FALSE(back->folder->changed.at(1));
  // Of a node that is not there.
  CHECK_FALSE(decode_seen(encode(seen), 1));
}

TEST_CASE("what is no card is none, at whatever byte it ends") {
  const std::string text = encode(healthy(1).cards[0]);
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_FALSE(decode_card(text.substr(0, size)));
  for (const char* const each : {"", "null", "[]", "{}", "7", "\xff", R"({"token": 7})"}) {
    CHECK_FALSE(decode_card(each));
    CHECK_FALSE(decode_seen(each, 2));
  }
  CHECK_FALSE(decode_seen(R"({"peers": [[0, {"paths": [["a", 1, 99, ""]], "round_trip": null,
      "clock_ahead": null, "name": [0, "", 0], "named": [0, ""],
      "speed": null}]], "folder": null})",
                          1));
}

TEST_CASE("names that are no UTF-8 can be told") {
  node_card card = healthy(1).cards[0];
  card.name = "node-\xff";
  REQUIRE(decode_card(encode(card)));
}
