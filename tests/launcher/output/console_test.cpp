#include "launcher/output/console.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace {

struct recorded {
  std::vector<std::string> lines;
  explicit recorded(ddprun::log_style style = {})
      : console("node-a", "job1", {ddprun::note_level::info, style},
                [this](std::string line) { lines.push_back(std::move(line)); }) {}
  ddprun::launcher::console console;
};

}  // namespace

TEST_CASE("a line names ddprun, the node and the level") {
  recorded out;
  out.console.say(ddprun::note_level::warning, "the daemon does not answer");
  REQUIRE(out.lines.size() == 1);
  CHECK(out.lines[0].starts_with("ddprun node-a "));
  CHECK(out.lines[0].ends_with(": warning: the daemon does not answer\n"));
}

TEST_CASE("a line has the time that was asked for") {
  recorded iso({ddprun::time_style::iso, ddprun::log_format::text});
  iso.console.say(ddprun::note_level::info, "hello");
  // "ddprun node-a 2026-11-24T22:03:05.412+01:00: hello"
  const std::string& line = iso.lines.at(0);
  REQUIRE(line.size() == 51);
  CHECK(line[24] == 'T');
  CHECK((line[37] == '+' || line[37] == '-'));
  recorded none({ddprun::time_style::none, ddprun::log_format::text});
  none.console.say(ddprun::note_level::error, "hello");
  CHECK(none.lines.at(0) == "ddprun node-a: error: hello\n");
}

TEST_CASE("a line as JSON has its run, node and round, and a box its lines") {
  recorded out({ddprun::time_style::none, ddprun::log_format::json});
  out.console.say(ddprun::note_level::info, "waiting");
  out.console.enter(3);
  out.console.say(ddprun::note_level::warning, "round 3 failed:\n  | b: \"no\"\n  |   deep");
  REQUIRE(out.lines.size() == 2);
  CHECK(out.lines[0] == R"({"level":"info","program":"ddprun","node":"node-a","run_id":"job1",)"
                        R"("message":"waiting"})"
                        "\n");
  CHECK(out.lines[1] ==
        R"({"level":"warning","program":"ddprun","node":"node-a","run_id":"job1","round":3,)"
        R"("message":"round 3 failed:","lines":["b: \"no\"","  deep"]})"
        "\n");
}

TEST_CASE("warnings and errors have their colours where they are wanted") {
  recorded out;
  out.console.use_color();
  out.console.say(ddprun::note_level::warning, "one");
  out.console.say(ddprun::note_level::error, "two");
  out.console.say(ddprun::note_level::info, "three");
  REQUIRE(out.lines.size() == 3);
  CHECK(out.lines[0].ends_with(": \x1b[33mwarning:\x1b[0m one\n"));
  CHECK(out.lines[1].ends_with(": \x1b[31merror:\x1b[0m two\n"));
  CHECK(out.lines[2].find('\x1b') == std::string::npos);
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
  CHECK(out.lines[0].ends_with(
      "\n  | the last lines that it wrote to stderr:\n  |   loading\n  |   no\n"));
  CHECK_FALSE(out.console.show_failure(cause));
  CHECK(out.lines.size() == 1);
  cause.round = 3;
  cause.tail = "OSError: [Errno 28] No space left on device\n";
  CHECK(out.console.show_failure(cause));
  REQUIRE(out.lines.size() == 2);
  CHECK(out.lines[1].ends_with(
      "\n  | that means: a disk is full; what to do: look at df and df -i, and make room\n"));
  cause.rank.reset();
  cause.round = 4;
  CHECK_FALSE(out.console.show_failure(cause));
}

TEST_CASE("the state of a wait fits into one line of the terminal") {
  recorded out({ddprun::time_style::none, ddprun::log_format::text});
  CHECK(out.console.state_line("waiting", 80) == "ddprun node-a: waiting");
  CHECK(out.console.state_line("waiting", 23) == "ddprun node-a: waiting");
  CHECK(out.console.state_line("waiting", 22) == "ddprun node-a: wai...");
  CHECK(!out.console.state_line("waiting", 4));
  recorded json({ddprun::time_style::none, ddprun::log_format::json});
  CHECK(!json.console.state_line("waiting", 80));
  ddprun::launcher::console quiet("node-a", "job1", {ddprun::note_level::warning, {}}, {});
  CHECK(!quiet.state_line("waiting", 80));
}
