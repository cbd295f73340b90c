#include "launcher/report/round_text.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("a round begins with a line that says which ranks are on which node") {
  const std::string members = "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2)";
  CHECK(round_starts_text(1, {}, members, "") == "round 1 starts: " + members);
  CHECK(round_starts_text(4, {}, members, "restart 2 of 3") ==
        "round 4 starts: " + members + "; restart 2 of 3");
}

TEST_CASE("a round that follows on a drain, a join or a lost node is no restart") {
  restarts_heard heard;
  CHECK(heard.text(7, 0, 0, 3) == "");
  CHECK(heard.text(7, 1, 0, 3) == "restart 1 of 3");
  CHECK(heard.text(7, 1, 0, 3) == "");
  CHECK(heard.text(7, 2, 0, 3) == "restart 2 of 3");
  // The budget was refilled in between, so those restarts do not count any more.
  CHECK(heard.text(7, 2, 2, 3) == "");
  CHECK(heard.text(7, 3, 2, 3) == "restart 1 of 3 (3 in all)");
  SECTION("another instance counts for itself") {
    CHECK(heard.text(8, 1, 0, 3) == "restart 1 of 3");
  }
  SECTION("a node that comes late is told which restart is on, if one is") {
    CHECK(restarts_heard().text(7, 3, 2, 3) == "restart 1 of 3 (3 in all)");
    CHECK(restarts_heard().text(7, 2, 2, 3) == "");
  }
}

TEST_CASE("where an older daemon does not say which ranks are where, counts stand for it") {
  assignment assigned;
  assigned.world_size = 4;
  assigned.group_world_size = 2;
  CHECK(round_starts_text(2, assigned, "", "restart 1 of 1") ==
        "round 2 starts: 4 workers on 2 nodes; restart 1 of 1");
}

TEST_CASE("a worker's command is shown so that a shell takes it") {
  CHECK(command_text({"python3", "-u", "train.py", "--lr=0.1", "", "it's $HOME"}) ==
        R"(python3 -u train.py --lr=0.1 '' 'it'\''s $HOME')");
  const std::string all = command_text(std::vector<std::string>(10'000, "word"));
  CHECK(all.size() < 1100);
  CHECK(all.ends_with(" ..."));
}
