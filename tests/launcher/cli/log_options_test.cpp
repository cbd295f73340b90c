#include "launcher/cli/options.hpp"
#include "rendezvous/server/daemon_options.hpp"
#include "tests/support/catch.hpp"

#include <variant>

using namespace ddprun;

namespace {

cli::log_options log_options_of(const std::vector<std::string>& options,
                                const environment_map& environment = {}) {
  std::vector<std::string> line = options;
  line.emplace_back("a.py");
  auto outcome = launcher::parse_options(line, environment);
  REQUIRE(std::holds_alternative<launcher::launch_options>(outcome));
  return std::get<launcher::launch_options>(outcome).log;
}

}  // namespace

TEST_CASE("which of its own lines ddprun writes, and how") {
  const auto options = log_options_of({"--log-time=iso", "--log-format", "json", "--quiet"});
  CHECK(options.least == note_level::warning);
  CHECK(options.style.time == time_style::iso);
  CHECK(options.style.format == log_format::json);
  CHECK(log_options_of({"--log-time", "none"}).style.time == time_style::none);
  CHECK(log_options_of({}).style.time == time_style::time);
}

TEST_CASE("of --quiet and --log-level the later one counts, and the command line over all") {
  CHECK(log_options_of({"--quiet", "--log-level", "debug"}).least == note_level::debug);
  CHECK(log_options_of({"--log-level", "debug", "--quiet"}).least == note_level::warning);
  CHECK(log_options_of({"--quiet"}, {{"PET_LOG_LEVEL", "debug"}}).least == note_level::warning);
  CHECK(log_options_of({"--quiet"}, {{"LOGLEVEL", "debug"}}).least == note_level::warning);
  CHECK(log_options_of({}, {{"PET_QUIET", "1"}}).least == note_level::warning);
}

TEST_CASE("the daemon's log has the same options") {
  const auto outcome =
      server::parse_daemon_options({"--log-format=json", "--log-time=iso", "--quiet"});
  REQUIRE(std::holds_alternative<server::daemon_options>(outcome));
  const cli::log_options log = std::get<server::daemon_options>(outcome).log;
  CHECK(log.least == note_level::warning);
  CHECK(log.style.time == time_style::iso);
  CHECK(log.style.format == log_format::json);
  const auto wrong = server::parse_daemon_options({"--log-time=utc"});
  REQUIRE(std::holds_alternative<cli::usage_error>(wrong));
  CHECK(std::get<cli::usage_error>(wrong).text == "--log-time=utc: write time, iso or none");
}
