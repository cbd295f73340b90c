// The round of the job in which an entry was saved, as text.
#include "launcher/vault/entry_origin.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <string_view>

using namespace ddprun::launcher::vault;

TEST_CASE("what is not in the record of origins is of the round that is now", "[vault]") {
  origin_record record;
  record.now = {"7319.5", 1};
  record.known[{0, {10, "out/a b"}}] = {"7319.4", 2};
  record.known[{3, {11, "c"}}] = {};
  const origin_record read = parse_origins(to_text(record));
  CHECK(read.now == record.now);
  CHECK(read.known == record.known);
  CHECK(read.of({0, {10, "out/a b"}}) == origin{"7319.4", 2});
  CHECK(read.of({1, {10, "out/a b"}}) == record.now);
  CHECK(read.of({0, {12, "out/a b"}}) == record.now);
  CHECK_FALSE(read.of({3, {11, "c"}}).is_known());
}

TEST_CASE("of a damaged record of origins nothing is taken", "[vault]") {
  const std::string first = "ddprun vault origins 1\n";
  CHECK(parse_origins(first + "now 2 7.1\n").now == origin{"7.1", 2});
  for (const std::string odd :
       {"now 2 7.1", "now 2\n", "now 2 -\n", "now 0 7.1\n", "now 2 7.1 more\n", "now -1 7.1\n",
        "now 2 7/1\n", "now 2 7.1\nof 0 5 2 7.1 ../a\n", "now 2 7.1\nof 0 2 7.1 a\n",
        "now 2 7.1\nmore\n", "now 2 7.1\n\n"}) {
    INFO(odd);
    CHECK_FALSE(parse_origins(first + odd).now.is_known());
  }
  CHECK_FALSE(parse_origins("ddprun vault origins 2\nnow 2 7.1\n").now.is_known());
  CHECK_FALSE(parse_origins("").now.is_known());
}
