#include "launcher/agent/console.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace {

struct recorded {
  std::vector<std::string> lines;
  ddprun::launcher::console console{"node-a", ddprun::note_level::info,
                                    [this](std::string line) { lines.push_back(std::move(line)); }};
};

}  // namespace

TEST_CASE("a line names ddprun, the node and the level") {
  recorded out;
  out.console.say(ddprun::note_level::warning, "the daemon does not answer");
  REQUIRE(out.lines.size() == 1);
  CHECK(out.lines[0].starts_with("ddprun node-a "));
  CHECK(out.lines[0].ends_with(": warning: the daemon does not answer\n"));
}

TEST_CASE("lines below the level are left out") {
  recorded out;
  out.console.say(ddprun::note_level::debug, "heartbeat");
  CHECK(out.lines.empty());
}

TEST_CASE("a failure's last lines are shown once, though stop and close both carry them") {
  recorded out;
  ddprun::cause cause;
  cause.round = 2;
  cause.rank = 3;
  cause.tail = "loading\nno\n";
  CHECK(out.console.show_failure(cause));
  REQUIRE(out.lines.size() == 1);
  CHECK(out.lines[0].ends_with(": the last lines that it wrote to stderr:\n  | loading\n  | no\n"));
  CHECK_FALSE(out.console.show_failure(cause));
  CHECK(out.lines.size() == 1);
  cause.round = 3;
  cause.tail = "OSError: [Errno 28] No space left on device\n";
  CHECK(out.console.show_failure(cause));
  REQUIRE(out.lines.size() == 3);
  CHECK(out.lines[2].ends_with(": that means: a disk is full; check: df, and df -i\n"));
  cause.rank.reset();
  cause.round = 4;
  CHECK_FALSE(out.console.show_failure(cause));
}
