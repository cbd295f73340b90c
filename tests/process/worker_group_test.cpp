// Real workers of one round: started, drained, named when they fail.
#include "launcher/process/worker_group.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"

#include <csignal>

using namespace ddprun;

TEST_CASE("workers of a group start, print whole lines with prefixes, and end") {
  process_fixture fixture;
  const auto ends = fixture.run_group({
      fixture.shell("echo one; echo two >&2", 0, "[a:0] "),
      fixture.shell("printf 'no newline'; exit 3", 1, "[a:1] "),
      fixture.shell("kill -SEGV $$", 2, "[a:2] "),
  });
  REQUIRE(ends.size() == 3);
  CHECK(fixture.all_started);
  CHECK(ends.at(0).status.success());
  CHECK(ends.at(0).tail == "two\n");
  CHECK(ends.at(1).status.describe() == "exit code 3");
  CHECK(ends.at(2).status.signal == SIGSEGV);
  CHECK(ends.at(2).status.process_code() == 139);
  const std::string output = fixture.output();
  CHECK(output.find("[a:0] one\n") != std::string::npos);
  CHECK(output.find("[a:1] no newline\n") != std::string::npos);
  CHECK(fixture.errors() == "[a:0] two\n");
}

TEST_CASE("a worker alone has no prefix, and its output is passed through") {
  process_fixture fixture;
  const auto ends = fixture.run_group({fixture.shell("printf 'a\\rb'", 0, "")});
  REQUIRE(ends.size() == 1);
  CHECK(fixture.output() == "a\rb");
}

TEST_CASE("a worker that cannot be started is named with its stage") {
  process_fixture fixture;
  worker_command command;
  command.argv = {"./no-such-program"};
  const auto ends = fixture.run_group({command});
  CHECK(ends.empty());
  CHECK(!fixture.all_started);
  REQUIRE(fixture.failure);
  CHECK(fixture.failure->describe() ==
        "cannot execute ./no-such-program: No such file or directory (stage: exec)");
}
