// All that wait for the end of a user's command learn how it ended: --health-check.
#include "launcher/node/node_health.hpp"
#include "launcher/process/hook_runner.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

struct waited_hook : process_fixture {
  explicit waited_hook(const std::string& command, duration limit = test_limit) {
    hook_options options;
    options.name = "--health-check";
    options.command = command;
    options.environment = environment();
    options.prefix = "[a:health-check] ";
    options.limit = limit;
    hook = std::make_unique<hook_runner>(io.get_executor(), spawn, *mux, guard, std::move(options),
                                         [this](const std::string& line) { said.push_back(line); });
    hook->run({"after round 2", "", [this](const hook_end& how) { end = how; }});
    run_until([this] { return end.has_value(); });
  }
  ~waited_hook() {
    hook.reset();
    CHECK(list_children().empty());
    CHECK(said.empty());
  }
  std::vector<std::string> said;
  std::optional<hook_end> end;
  std::unique_ptr<hook_runner> hook;
};

}  // namespace

TEST_CASE("a command that goes well has found nothing") {
  waited_hook fixture("echo all well");
  CHECK(fixture.end->success());
  CHECK(health_problem(*fixture.end).empty());
  CHECK(fixture.errors() == "[a:health-check] all well\n");
}

TEST_CASE("a command that fails is heard with its last line") {
  waited_hook fixture("echo GPU 3 is slow; echo GPU 3 fell off the bus >&2; exit 4");
  CHECK(health_problem(*fixture.end) == "GPU 3 fell off the bus (--health-check: exit code 4)");
}

TEST_CASE("a command that says nothing is heard with how it ended") {
  waited_hook fixture("kill -9 $$");
  CHECK(health_problem(*fixture.end) == "--health-check: killed by SIGKILL");
}

TEST_CASE("a command that does not end is killed, and that is heard") {
  waited_hook fixture("echo looking; sleep 1000 & sleep 1000", 300ms);
  CHECK_THAT(health_problem(*fixture.end),
             Catch::Matchers::Contains("--health-check: it had not ended after 300 ms"));
}
