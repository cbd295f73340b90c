#include "rendezvous/server/options.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::server;
using namespace std::chrono_literals;

namespace {

std::string problem_of(const std::vector<std::string>& arguments) {
  std::string problem;
  REQUIRE(parse_daemon_options(arguments, problem).has_error());
  return problem;
}

daemon_options read(const std::vector<std::string>& arguments) {
  std::string problem;
  const auto options = parse_daemon_options(arguments, problem);
  INFO(problem);
  REQUIRE(options.has_value());
  return *options;
}

}  // namespace

TEST_CASE("the daemon's options") {
  CHECK(read({}).port == 29400);
  CHECK(read({}).recovery_window == 10s);
  const auto options =
      read({"--bind=::1", "--port", "0", "--port_file=p", "--log-level", "error",
            "--recovery-window", "0.5", "--store-memory", "3", "--state-dir", "/var/lib/x"});
  CHECK(options.bind_address == "::1");
  CHECK(options.port == 0);
  CHECK(options.port_file == "p");
  CHECK(options.log_level == note_level::error);
  CHECK(options.recovery_window == 500ms);
  CHECK(options.store_bytes_max == std::size_t{3} << 20);
  CHECK(options.state_folder == "/var/lib/x");
  CHECK_FALSE(read({}).state_folder);
  CHECK(read({"--help"}).what == daemon_options::action::help);
  CHECK(read({"--version"}).what == daemon_options::action::version);
}

TEST_CASE("a mistake is one line that names it") {
  CHECK(problem_of({"--prot", "1"}) ==
        "unknown option --prot; did you mean --port? (--help lists all)");
  CHECK(problem_of({"--recovery_windows=1"}) ==
        "unknown option --recovery-windows; did you mean --recovery-window? (--help lists all)");
  CHECK(problem_of({"--something-else"}) == "unknown option --something-else (--help lists all)");
  CHECK(problem_of({"29400"}) == "unexpected argument 29400 (--help lists all)");
  CHECK(problem_of({"--port"}) == "--port needs a value");
  CHECK(problem_of({"--port", "65536"}) ==
        "--port 65536: is no port (0 to 65535; 0 picks a free one)");
  CHECK(problem_of({"--port="}) == "--port '': is no port (0 to 65535; 0 picks a free one)");
  CHECK(problem_of({"--bind", "node-a"}) == "--bind node-a: is no numeric address of this host");
  CHECK(problem_of({"--log-level=loud"}) ==
        "--log-level loud: is none of debug, info, warning and error");
  CHECK(problem_of({"--store-memory=0"}) == "--store-memory 0: is no size in MiB (1 to 1048576)");
  CHECK(problem_of({"--recovery-window=-1"}) ==
        "--recovery-window -1: is no time in seconds (0 to 86400)");
  CHECK(problem_of({"--state-dir="}) == "--state-dir '': is no folder; \"none\" keeps nothing");
  CHECK(problem_of({"--recovery-window=nan"}) ==
        "--recovery-window nan: is no time in seconds (0 to 86400)");
}
