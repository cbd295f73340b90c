#include "launcher/base/text.hpp"

#include "tests/support/catch.hpp"

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
