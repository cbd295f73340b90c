#include "launcher/survivors/round_changes.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher::survivors;
using namespace std::string_literals;

TEST_CASE("a survivor is told what is new, what is another, and what is gone") {
  CHECK(round_changes({"RANK=1", "HOME=/root", "OLD=x"}, {"HOME=/root", "NEW=", "RANK=10"}) ==
        "NEW=\0RANK=10\0OLD\0"s);
  CHECK(round_changes({"A=1", "B=x=y"}, {"B=x=y", "A=1"}).empty());
  CHECK(round_changes({}, {"LINES=one\ntwo"}) == "LINES=one\ntwo\0"s);
  CHECK(round_changes({"A=1"}, {}) == "A\0"s);
}

TEST_CASE("a variable is found by its whole name") {
  const std::vector<std::string> environment = {"LOCAL_RANK_OF=7", "LOCAL_RANK=3", "EMPTY="};
  CHECK(value_of("LOCAL_RANK", environment) == "3");
  CHECK(value_of("LOCAL", environment).empty());
  CHECK(value_of("EMPTY", environment).empty());
}
