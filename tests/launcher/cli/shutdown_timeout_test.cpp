#include "launcher/cli/options.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <string>
#include <variant>
#include <vector>

using namespace std::chrono_literals;

namespace ddprun::launcher {
namespace {

constexpr const char* variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";

parse_outcome parse(std::vector<std::string> words, const environment_map& environment) {
  words.emplace_back("a.py");
  return parse_options(words, environment);
}

duration drain_grace(std::vector<std::string> words, const environment_map& environment = {}) {
  const auto outcome = parse(std::move(words), environment);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  return std::get<launch_options>(outcome).settings.timing.drain_grace;
}

}  // namespace

TEST_CASE(
    "the shutdown timeout is drain_grace, and not stop_grace, by the option or by torchrun's "
    "variable") {
  CHECK(drain_grace({"--shutdown-timeout=7"}) == 7s);
  CHECK(drain_grace({}, {{variable, "600"}}) == 600s);
  CHECK(drain_grace({"--rdzv-conf=settle=0"}, {{variable, "600"}}) == 600s);
  CHECK(drain_grace({}, {{variable, ""}}) == timers().drain_grace);
  const auto outcome = parse({"--shutdown-timeout=7"}, {{variable, "600"}});
  CHECK(std::get<launch_options>(outcome).settings.timing.stop_grace == timers().stop_grace);
}

TEST_CASE("a shutdown timeout that was typed wins over the variable") {
  CHECK(drain_grace({"--shutdown-timeout=7"}, {{variable, "600"}}) == 7s);
  CHECK(drain_grace({}, {{"PET_SHUTDOWN_TIMEOUT", "7"}, {variable, "600"}}) == 7s);
  CHECK(drain_grace({"--rdzv-conf=drain_grace=7"}, {{variable, "600"}}) == 7s);
  CHECK(drain_grace({"--rdzv-conf=drain_grace=7", "--rdzv-conf=settle=0"}, {{variable, "600"}}) ==
        600s);
}

TEST_CASE("stop_grace that was typed leaves no more to workers that are at something") {
  const auto spares = [](std::vector<std::string> words) {
    return std::get<launch_options>(parse(std::move(words), {})).spares_busy_workers;
  };
  CHECK(spares({}));
  CHECK(spares({"--rdzv-conf=drain_grace=7"}));
  CHECK_FALSE(spares({"--rdzv-conf=stop_grace=5"}));
}

TEST_CASE("a shutdown timeout of 0 is the least that a timer can be") {
  CHECK(drain_grace({"--shutdown-timeout=0"}) == 1ms);
  CHECK(drain_grace({}, {{variable, "0"}}) == 1ms);
}

TEST_CASE("a shutdown timeout that is no time is refused by its name") {
  const auto outcome = parse({}, {{variable, "soon"}});
  REQUIRE(std::holds_alternative<cli::usage_error>(outcome));
  CHECK(std::get<cli::usage_error>(outcome).text ==
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon: write seconds from 0 to 2592000; fractions are fine");
}

}  // namespace ddprun::launcher
