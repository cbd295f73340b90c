#include "rendezvous/core/run/members_text.hpp"

#include "rendezvous/base/utf8.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::core;

TEST_CASE("a round's members are named with their ranks and addresses") {
  CHECK(members_text({{"a", "10.0.0.1", 0, 2}, {"b", "10.0.0.2", 2, 2}}, 2, 4) ==
        "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2)");
  CHECK(members_text({{"a", "", 0, 1}, {"b", "10.0.0.2", 1, 3}}, 2, 4) ==
        "ranks 0 on a, 1-3 on b (10.0.0.2)");
}

TEST_CASE("a round of one node needs no address") {
  CHECK(members_text({{"a", "127.0.0.1", 0, 1}}, 1, 1) == "rank 0 on a");
  CHECK(members_text({{"a", "127.0.0.1", 0, 8}}, 1, 8) == "ranks 0-7 on a");
}

TEST_CASE("of many members the first are named, the others counted") {
  std::vector<named_member> many;
  for (std::uint32_t index = 0; index < members_named_max + 3; ++index)
    many.push_back({"n", "1.1.1.1", 2 * index, 2});
  CHECK(members_text(many, 16, 32) ==
        "ranks 0-1 on n (1.1.1.1), 2-3 on n (1.1.1.1), 4-5 on n (1.1.1.1), 6-7 on n (1.1.1.1), "
        "8-9 on n (1.1.1.1), 10-11 on n (1.1.1.1) and 10 more nodes with 20 workers");
  CHECK(members_text({{"a", "", 0, 1}}, 2, 2) == "ranks 0 on a and 1 more node with 1 worker");
}

TEST_CASE("the members' text is bounded, whatever they are called") {
  const std::string label(256, 'n');
  const std::string wide = [] {
    std::string text;
    for (int count = 0; count < 80; ++count)
      text += "\xc3\xa4";
    return text;
  }();
  for (const std::string& name : {label, wide}) {
    const std::vector<named_member> all(members_named_max, {name, name, 4'294'000'000U, 4096});
    const std::string text = members_text(all, 1'000'000, 4'294'967'295U);
    CHECK(text.size() <= members_text_max);
    CHECK(text.find("... (") != std::string::npos);
    CHECK(text.find(" more nodes with ") != std::string::npos);
    CHECK(is_valid_utf8(text));
  }
}

TEST_CASE("people know a node by the address that leads there") {
  CHECK(known_address({"fast.example", "10.0.0.1", "10.0.0.1", ""}, "") == "fast.example");
  CHECK(known_address({"", "10.0.0.1", "192.0.2.1", ""}, "") == "10.0.0.1");
  CHECK(known_address({"", "127.0.0.1", "::ffff:10.0.0.1", ""}, "") == "10.0.0.1");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "") == "127.0.0.1");
  CHECK(known_address({"", "", "::1", ""}, "") == "::1");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "::ffff:10.0.0.9") == "10.0.0.9");
  CHECK(known_address({"", "127.0.0.1", "127.0.0.1", ""}, "127.0.0.1") == "127.0.0.1");
  CHECK(known_address({"", "10.0.0.1", "10.0.0.1", ""}, "10.0.0.9") == "10.0.0.1");
}
