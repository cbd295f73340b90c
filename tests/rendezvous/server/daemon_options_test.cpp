#include "rendezvous/server/daemon_options.hpp"

#include "tests/support/catch.hpp"

#include <sstream>

using namespace ddprun;
using server::daemon_options;
using server::daemon_outcome;
using server::parse_daemon_options;
using namespace std::chrono_literals;

namespace {

std::string problem_of(const std::vector<std::string>& arguments) {
  const daemon_outcome outcome = parse_daemon_options(arguments);
  REQUIRE(std::holds_alternative<cli::usage_error>(outcome));
  return std::get<cli::usage_error>(outcome).text;
}

daemon_options read(const std::vector<std::string>& arguments) {
  const daemon_outcome outcome = parse_daemon_options(arguments);
  if (const auto* const wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  REQUIRE(std::holds_alternative<daemon_options>(outcome));
  return std::get<daemon_options>(outcome);
}

std::string shown_by(const std::vector<std::string>& arguments) {
  const daemon_outcome outcome = parse_daemon_options(arguments);
  REQUIRE(std::holds_alternative<cli::show_text>(outcome));
  return std::get<cli::show_text>(outcome).text;
}

}  // namespace

TEST_CASE("the daemon's options") {
  CHECK(read({}).port == 29400);
  CHECK(read({}).recovery_window == 10s);
  const auto options = read({"--bind=::1", "--port", "0", "--port_file=p", "--log-level", "error",
                             "--recovery-window", "0.5", "--store-memory", "3", "--state-dir",
                             "/var/lib/x", "--color=always"});
  CHECK(options.bind_address == "::1");
  CHECK(options.port == 0);
  CHECK(options.port_file == "p");
  CHECK(options.log.least == note_level::error);
  CHECK(options.recovery_window == 500ms);
  CHECK(options.store_bytes_max == std::size_t{3} << 20);
  CHECK(options.color == color_mode::always);
  CHECK(read({}).color == color_mode::automatic);
  CHECK(options.state_folder == "/var/lib/x");
  CHECK_FALSE(read({}).state_folder);
  CHECK(read({"--recovery-window=0"}).recovery_window == 0s);
  // As with ddprun, an unambiguous beginning of a name is enough.
  CHECK(read({"--rec=2"}).recovery_window == 2s);
}

TEST_CASE("the daemon's help and version") {
  const std::string help = shown_by({"--port", "1", "--help", "more"});
  CHECK(shown_by({"-h"}) == help);
  CHECK(help.starts_with("usage: ddprun-rendezvous [OPTIONS]\n"));
  for (const char* const line :
       {"\n  --bind=ADDRESS               listen on this", "prints it (29400)\n",
        "there was no earlier daemon (10)\n", "is affected (1024)\n", "\n  -h, --help        "}) {
    CHECK(help.find(line) != std::string::npos);
  }
  std::istringstream lines{help};
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 100);
  CHECK(shown_by({"--version"}).starts_with("ddprun-rendezvous "));
}

TEST_CASE("a mistake is one line that names it") {
  const std::string all = "ddprun-rendezvous --help lists all";
  CHECK(problem_of({"--prot", "1"}) == "unknown option --prot; did you mean --port? " + all);
  CHECK(problem_of({"--recovery_windows=1"}) ==
        "unknown option --recovery_windows; did you mean --recovery-window? " + all);
  CHECK(problem_of({"--something-else"}) == "unknown option --something-else; " + all);
  CHECK(problem_of({"--s=1"}) == "--s could be --state-dir or --store-memory; write more of it");
  CHECK(problem_of({"29400"}) == "unexpected argument 29400; " + all);
  CHECK(problem_of({"--port"}) == "--port needs a value");
  CHECK(problem_of({"--port", "--bind=::1"}) == "--port needs a value");
  CHECK(problem_of({"--help=1"}) == "--help=1: --help takes no value");
  const std::string port = "the port is a number from 1 to 65535, or 0 for a free one";
  CHECK(problem_of({"--port", "65536"}) == "--port=65536: " + port);
  CHECK(problem_of({"--port="}) == "--port=: " + port);
  CHECK(problem_of({"--bind", "node-a"}) == "--bind=node-a: write an address in digits");
  CHECK(problem_of({"--log-level=loud"}) ==
        "--log-level=loud: write debug, info, warning or error");
  CHECK(problem_of({"--color=1"}) == "--color=1: write auto, always or never");
  CHECK(problem_of({"--store-memory=0"}) ==
        "--store-memory=0: the number of MiB is a whole number from 1 to 1048576");
  CHECK(problem_of({"--state-dir="}) == "--state-dir=: write a folder, or none to persist nothing");
  CHECK(problem_of({"--port-file="}) == "--port-file=: the name of the file is empty");
  for (const char* const bad : {"-1", "nan", "1e99"}) {
    CHECK(problem_of({"--recovery-window", bad}) ==
          "--recovery-window=" + std::string(bad) +
              ": write seconds from 0 to 2592000; fractions are fine");
  }
}
