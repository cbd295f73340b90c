// The rules on restarts: pauses, nodes that are left out and needed again; and mutants that their
// checkers catch, like those in mutant_test.cpp.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// A worker fails every 1.5 s, or when its round has begun.
schedule failing_soon(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 2);
  made.options.settings.timing.backoff_max = 4s;
  for (int index = 0; index < 8; ++index)
    made.faults.push_back(fault_of(fault_kind::fail_worker, 2s + index * 1500ms, 1));
  made.heal_at = 16s;
  return made;
}

// Workers of the first host fail first, twice; then one of the second host. No other failure
// follows.
schedule one_is_ill(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 3);
  run_settings& settings = made.options.settings;
  settings.nodes_min = 2;
  settings.node_failures_max = 2;
  made.options.habits.collateral_percent = 0;
  made.faults = {fault_of(fault_kind::fail_worker, 2s, 1), fault_of(fault_kind::fail_worker, 4s, 1),
                 fault_of(fault_kind::come_again, 6s, 1), fault_of(fault_kind::fail_worker, 8s, 2)};
  made.heal_at = 10s;
  return made;
}

schedule one_is_ill_of_one_name(std::uint64_t seed) {
  schedule made = one_is_ill(seed);
  made.options.hosts_share_name = true;
  return made;
}

// Then another node dies, and without the first one too few are left.
schedule ill_and_needed(std::uint64_t seed) {
  schedule made = one_is_ill(seed);
  made.faults[2] = fault_of(fault_kind::kill_agent, 6s, 2);
  made.faults[3] = fault_of(fault_kind::come_again, 9s, 1);
  made.heal_at = 12s;
  return made;
}

// The daemon lives in the first host's agent.
schedule ill_host_of_the_daemon(std::uint64_t seed) {
  schedule made = ill_and_needed(seed);
  made.embedded = made.options.embeds = true;
  made.options.embedded_recovers = false;  // or it would wait for agents of an earlier one
  made.faults.pop_back();
  return made;
}

schedule with_a_spare_that_comes(std::uint64_t seed) {
  schedule made = quiet_schedule(seed, 2);
  made.options.settings.spares_max = 1;
  made.faults = {fault_of(fault_kind::join, 3s, 0)};
  made.heal_at = 5s;
  return made;
}

schedule failing_in_other_ways(std::uint64_t seed) {
  schedule made = failing_soon(seed);
  made.options.settings.quick_failures_max = 3;
  made.options.settings.timing.backoff_max = 0s;
  made.options.habits.collateral_percent = 0;
  made.faults[1].value = 1;
  made.faults.resize(3);
  return made;
}

// Changes messages of agents on their way to the daemon.
mutant with_message(std::function<void(core::agent_said&)> change) {
  mutant made;
  made.daemon_event = [change](daemon&, core::daemon_event& event) {
    if (auto* const said = std::get_if<core::agent_said>(&event)) change(*said);
    return true;
  };
  return made;
}

mutant that_asks_for(std::function<void(run_settings&)> change) {
  return with_message([change](core::agent_said& said) {
    if (auto* const greeting = std::get_if<hello>(&said.message)) change(greeting->settings);
  });
}

}  // namespace

TEST_CASE("mutant: nothing waits after quick failures") {
  const mutant hasty = that_asks_for([](run_settings& said) { said.timing.backoff_max = 0s; });
  REQUIRE_THAT(caught(hasty, 5, failing_soon), StartsWith("pause:"));
  REQUIRE(caught({}, 5, failing_soon) == "nothing");
}

TEST_CASE("mutant: pauses do not grow") {
  const mutant slow = that_asks_for([](run_settings& said) { said.timing.backoff_max = 1s; });
  REQUIRE_THAT(caught(slow, 5, failing_soon), StartsWith("pause:"));
}

TEST_CASE("mutant: a run is given up whose failures differ") {
  const mutant hasty = with_message([](core::agent_said& said) {
    auto* const news = std::get_if<status>(&said.message);
    if (news == nullptr) return;
    for (cause& each : news->causes) {
      each.kind = cause_class::exit;
      each.code = 1;
      each.text = "it failed";
    }
  });
  REQUIRE_THAT(caught(hasty, 20, failing_in_other_ways), StartsWith("given up:"));
  REQUIRE(caught({}, 20, failing_in_other_ways) == "nothing");
}

TEST_CASE("mutant: no node is left out") {
  const mutant kind = that_asks_for([](run_settings& said) { said.node_failures_max = 0; });
  REQUIRE_THAT(caught(kind, 5, one_is_ill), StartsWith("left out:"));
  REQUIRE(caught({}, 5, one_is_ill) == "nothing");
}

TEST_CASE("mutant: a node is left out too early") {
  const mutant harsh = that_asks_for([](run_settings& said) { said.node_failures_max = 1; });
  REQUIRE_THAT(caught(harsh, 5, one_is_ill), StartsWith("left out:"));
}

TEST_CASE("mutant: a node that is left out is taken for another one when it comes again") {
  const auto count = std::make_shared<std::uint64_t>(0);
  const mutant forgetful = with_message([count](core::agent_said& said) {
    auto* const greeting = std::get_if<hello>(&said.message);
    if (greeting != nullptr) greeting->host += std::to_string(++*count);
  });
  REQUIRE_THAT(caught(forgetful, 5, one_is_ill), StartsWith("left out:"));
}

TEST_CASE("mutant: hosts of one name are one node") {
  const mutant confused =
      with_message([](core::agent_said& said) { said.peer_address = "10.0.0.1"; });
  REQUIRE_THAT(caught(confused, 5, one_is_ill_of_one_name), StartsWith("left out:"));
  REQUIRE(caught({}, 5, one_is_ill_of_one_name) == "nothing");
}

TEST_CASE("mutant: a spare is refused though there is room for it") {
  const mutant small = that_asks_for([](run_settings& said) { said.spares_max = 0; });
  REQUIRE_THAT(caught(small, 5, with_a_spare_that_comes), StartsWith("refused:"));
  REQUIRE(caught({}, 5, with_a_spare_that_comes) == "nothing");
}

TEST_CASE("mutant: an agent leaves as though it had been refused") {
  mutant rude;
  rude.agent_effects = [](agent&, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const end = std::get_if<core::leave>(&effect);
      if (end != nullptr) end->exit_code = refused_exit_code;
    }
  };
  REQUIRE_THAT(caught(rude, 5, with_a_spare_that_comes), StartsWith("refused:"));
}

// There are four rounds: two fail on it, one runs without it, and one with it when another node is
// dead.
TEST_CASE("a node that was left out steps in when the others are too few") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const outcome again = play(ill_and_needed(seed));
    REQUIRE(again.violation == "");
    REQUIRE(again.rounds == 4);
    const outcome hosting = play(ill_host_of_the_daemon(seed));
    REQUIRE(hosting.violation == "");
    REQUIRE(hosting.rounds == 4);
  }
}

}  // namespace ddprun::simulation
