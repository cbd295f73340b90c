#include "launcher/hosts/doctor/cluster_json.hpp"

#include "rendezvous/base/printable_text.hpp"
#include "tests/launcher/hosts/doctor/cluster_support.hpp"
#include "tests/support/catch.hpp"

#include <nlohmann/json.hpp>

#include <string>

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
  // The index of a node that does not exist.
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

TEST_CASE("a card that nests something without end is one without it") {
  const std::string text = encode(healthy(1).cards[0]);
  const std::string nested = std::string(400'000, '[') + std::string(400'000, ']');
  const auto read = decode_card(R"({"more": )" + nested + ", " + text.substr(1));
  REQUIRE(read);
  CHECK(encode(*read) == text);
}

TEST_CASE("no text that another node has left brings what cannot be shown, in whichever place") {
  using nlohmann::json;
  cluster_facts facts = healthy(2);
  facts.cards[0].own = {{"disk", health::error, "full", "make room"}};
  facts.seen[0]->folder = folder_seen{"read-only", "nfs", {{1, 5}}, {{1, 5}}};
  const auto has_bad = [](const json& whole) {
    const json flat = whole.flatten();
    bool is_bad = false;
    for (const auto& [path, value] : flat.items()) {
      is_bad = is_bad || ddprun::has_control_characters(path) ||
               (value.is_string() && ddprun::has_control_characters(value.get<std::string>()));
    }
    return is_bad;
  };
  const auto try_all = [&has_bad](const std::string& text, const auto& encoded_again) {
    const json whole = json::parse(text);
    const json flat = whole.flatten();
    for (const auto& [path, value] : flat.items()) {
      if (!value.is_string()) continue;
      json changed = whole;
      changed[json::json_pointer(path)] =
          value.template get<std::string>() + "\nddprun: forged\x1b[2J\r\x7f\xC2\x9B\xE2\x80\xAE";
      INFO(path);
      CHECK_FALSE(has_bad(json::parse(encoded_again(changed.dump()))));
    }
  };
  try_all(encode(facts.cards[0]), [](const std::string& text) {
    return encode(decode_card(text).value());  //
  });
  try_all(encode(*facts.seen[0]), [](const std::string& text) {
    return encode(decode_seen(text, 2).value());  //
  });
  json named = json::parse(encode(facts.cards[0]));
  named["versions"]["Num\nPy"] = "1";
  CHECK_FALSE(has_bad(json::parse(encode(decode_card(named.dump()).value()))));
  named["name"] = "node\nforged";
  CHECK(name_on_card(named.dump()) == "node forged");
}

TEST_CASE("names that are no UTF-8 can be told") {
  node_card card = healthy(1).cards[0];
  card.name = "node-\xff";
  REQUIRE(decode_card(encode(card)));
}
