#include "launcher/base/text.hpp"

#include "tests/support/catch.hpp"

#include <cstdint>

using namespace ddprun::launcher;

TEST_CASE("a list is split at its separators, and has a part at least") {
  using parts = std::vector<std::string_view>;
  CHECK(split("a,b", ',') == parts{"a", "b"});
  CHECK(split("", ',') == parts{""});
  CHECK(split(",a, ,", ',') == parts{"", "a", " ", ""});
}

TEST_CASE("blanks at both ends are no part of a word") {
  CHECK(trimmed(" a b\t\n") == "a b");
  CHECK(trimmed(" \n").empty());
}

TEST_CASE("a whole number is all of a text, and fits") {
  CHECK(whole_number<int>("-7") == -7);
  CHECK(whole_number<std::uint16_t>("65535") == 65535);
  for (const char* const text : {"", " 1", "1 ", "+1", "1x", "x", "65536", "-1", "1.0"})
    CHECK_FALSE(whole_number<std::uint16_t>(text));
}

TEST_CASE("a leading number ends where its digits do") {
  CHECK(leading_number<int>("535.54.03") == 535);
  CHECK(leading_number<int>("132") == 132);
  for (const char* const text : {"", "x1", " 1", "99999999999"})
    CHECK_FALSE(leading_number<int>(text));
}
