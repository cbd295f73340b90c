#include "rendezvous/base/name_text.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;

TEST_CASE("names are listed in a sentence, a long list with a number at its end") {
  CHECK(text_of_names({"a"}) == "a");
  CHECK(text_of_names({"a", "b"}) == "a and b");
  CHECK(text_of_names({"a", "b", "c"}) == "a, b and c");
  CHECK(text_of_names({"a"}, 2) == "a and 1 more");
  CHECK(text_of_names({"a", "b"}, 9) == "a, b and 7 more");
  const std::vector<std::string> many(10, "n");
  CHECK(text_of_names(many) == "n, n, n, n, n, n, n, n and 2 more");
}
