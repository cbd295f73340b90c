// What is charged, exactly: after each event of a story the restarts, the node losses and the
// rounds are exactly as many as there should be.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t nodes = 4;

struct ledger {
  std::uint32_t restarts = 0;
  std::uint32_t losses = 0;
  std::uint64_t rounds = 1;
};

class budget_story {
 public:
  explicit budget_story(const schedule& plan) : in_(plan.options) {
    daemon_host_ = &in_.add_host();
    in_.start_daemon(*daemon_host_);
    for (std::uint32_t index = 0; index < plan.nodes; ++index)
      in_.start_agent(in_.add_host());
  }

  // Returns what is wrong; empty if everything is as it should be.
  std::string check(const std::string& what, std::uint32_t least) {
    if (!in_.run_until_true([&] { return in_.checks().any_full(least); }, 60s))
      return what + ": no round; " + in_.violation();
    in_.run_for(1500ms);
    const worker_group* newest = nullptr;
    for (const auto& each : in_.checks().live())
      if (each->alive > 0) newest = each.get();
    if (newest == nullptr) return what + ": nobody runs; " + in_.violation();
    const auto view = in_.current_daemon()->run()->view({});
    const std::string text = unlike("restarts", newest->restarts_used, due_.restarts) +
                             unlike("losses", view.node_losses, due_.losses) +
                             unlike("rounds", in_.checks().rounds_started(), due_.rounds);
    return text.empty() ? in_.violation() : what + ": " + text + in_.violation();
  }

  agent& newest_on(std::uint32_t host) {
    agent* found = nullptr;
    for (const auto& each : in_.agents())
      if (each->where().id == host && each->alive() && !each->left()) found = each.get();
    return *found;
  }

  std::string event(random_source& random) {
    const auto host = static_cast<std::uint32_t>(1 + random.below(nodes));
    agent& hit = newest_on(host);
    const auto start_again = [&] {
      in_.run_for(random.between(2500ms, 4s));
      in_.give_power(in_.host_at(host));
      in_.start_agent(in_.host_at(host));
    };
    switch (random.below(7)) {
      case 0:
        in_.fail_worker(*hit.group, 0, cause_class::exit, 3);
        due_.restarts += 1, due_.rounds += 1;
        return "a worker fails";
      case 1:
        in_.kill_agent(hit);
        start_again();
        due_.losses += 1, due_.rounds += 1;
        return "an agent is killed";
      case 2:
        in_.lose_power(in_.host_at(host));
        start_again();
        due_.losses += 1, due_.rounds += 1;
        return "a host loses power";
      case 3:
        in_.signal(hit, 15);
        start_again();
        due_.rounds += 1;
        return "a node drains";
      case 4:
        in_.kill_daemon();
        in_.run_for(random.between(0ms, 2s));
        in_.start_daemon(*daemon_host_);
        in_.run_for(3s);
        due_.losses = 0;  // no daemon knows of those before it started
        return "the daemon is restarted";
      case 5:
        in_.fail_next_start(in_.host_at(host));
        in_.fail_worker(*hit.group, 0, cause_class::signal, 11);
        due_.restarts += 2, due_.rounds += 2;
        return "a worker fails, and then an exec";
      default:
        in_.net().break_connection(*hit.daemon_connection(), true);
        return "a connection breaks";
    }
  }

  world& in() { return in_; }
  ledger& due() { return due_; }

 private:
  world in_;
  host* daemon_host_ = nullptr;
  ledger due_;
};

std::string charged_wrongly(std::uint64_t seed, const mutant& mutation = {}) {
  schedule plan = quiet_schedule(seed, nodes);
  plan.options.mutation = mutation;
  plan.options.settings.spares_max = 2;  // a node may be back before its loss is known
  plan.options.settings.restarts_max = plan.options.settings.node_losses_max = 50;
  if (seed % 2 == 0) plan.options.habits.collateral_percent = 0;
  // The first death is noticed before another death follows from it.
  plan.options.habits.collateral_least = 2ms;
  random_source random = random_source(seed).fork(61);
  budget_story told(plan);
  std::string what = "the beginning";
  for (int events = 0; events < 7; ++events) {
    const std::string problem = told.check(what, nodes);
    if (!problem.empty()) return "--seed=" + std::to_string(seed) + ": " + problem;
    what = told.event(random);
  }
  return {};
}

// Racks of agents die one after the other, each rack within `settle_max`, and come back to wait.
std::string settles_wrongly(std::uint64_t seed, duration settle = 1500ms) {
  schedule plan = quiet_schedule(seed, 8);
  plan.options.settings.nodes_min = 2;
  plan.options.settings.node_losses_max = 50;
  plan.options.settings.timing.settle = settle;
  plan.options.settings.timing.settle_max = 6s;
  random_source random = random_source(seed).fork(62);
  budget_story told(plan);
  std::string problem = told.check("the beginning", 8);
  for (int rack = 0; rack < 3 && problem.empty(); ++rack) {
    const auto size = static_cast<std::uint32_t>(2 + random.below(4));
    for (std::uint32_t host = 1; host <= size; ++host) {
      told.in().kill_agent(told.newest_on(host));
      told.in().run_for(random.between(0ms, 1100ms));
    }
    told.due().losses += 1, told.due().rounds += 1;
    problem = told.check("a rack dies", 8 - size);
    for (std::uint32_t host = 1; host <= size; ++host)
      told.in().start_agent(told.in().host_at(host));
    told.in().run_for(2s);
    if (!problem.empty()) break;
    told.in().fail_worker(*told.newest_on(8).group, 0, cause_class::exit, 3);
    told.due().restarts += 1, told.due().rounds += 1;
    problem = told.check("all begin anew", 8);
  }
  return problem.empty() ? problem : "--seed=" + std::to_string(seed) + ": " + problem;
}

std::uint64_t stories() {
  return scaled(100, 3);
}

}  // namespace

TEST_CASE("what is charged is what has happened") {
  const std::uint64_t first = number_from("DDPRUN_SIMULATION_SEED", 0);
  for (std::uint64_t seed = first; seed < first + stories(); ++seed)
    REQUIRE(charged_wrongly(seed) == "");
}

TEST_CASE("a rack that dies within settle_max costs one round, each time") {
  const std::uint64_t first = number_from("DDPRUN_SIMULATION_SEED", 0);
  for (std::uint64_t seed = first; seed < first + stories(); ++seed)
    REQUIRE(settles_wrongly(seed) == "");
}

TEST_CASE("mutant: the losses of a rack are not waited for") {
  std::string problem;
  for (std::uint64_t seed = 0; seed < 5 && problem.empty(); ++seed)
    problem = settles_wrongly(seed, 0ms);
  REQUIRE(problem != "");
}

TEST_CASE("mutant: what a worker cost is forgotten") {
  mutant forgetful;
  forgetful.agent_effects = [](agent&, const core::agent_event&, core::agent_effects& effects) {
    for (auto& effect : effects) {
      auto* const start = std::get_if<core::start_workers>(&effect);
      if (start != nullptr) start->restarts_used = 0;
    }
  };
  std::string problem;
  for (std::uint64_t seed = 0; seed < 5 && problem.empty(); ++seed)
    problem = charged_wrongly(seed, forgetful);
  REQUIRE(problem != "");
}

}  // namespace ddprun::simulation
