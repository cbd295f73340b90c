// Two jobs at one endpoint, one after the other, neither of which has a run id of its own. The
// first job's daemon dies with the agent that it lived in, other agents of that job go on dialling,
// and the second job is started at the same endpoint. Nodes of one job differ in their arguments.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

struct two_jobs {
  two_jobs(std::uint64_t seed, mutant broken)
      : random(random_source(seed).fork(53)), in(options_of(seed, std::move(broken))) {
    for (std::uint32_t index = 0; index < nodes; ++index)
      in.add_host();
    in.set_endpoint(in.host_at(0));
  }

  static world_options options_of(std::uint64_t seed, mutant broken) {
    world_options made = quiet_schedule(seed, nodes).options;
    made.embeds = true;
    made.embedded_recovers = false;
    made.journal = seed % 3 == 0 ? journal_kind::none : journal_kind::kept;
    made.mutation = std::move(broken);
    return made;
  }

  // The node that hosts the daemon is not always the first.
  std::vector<agent*> start(const std::string& job) {
    std::vector<agent*> made;
    const auto turn = static_cast<std::uint32_t>(random.below(nodes));
    for (std::uint32_t index = 0; index < nodes; ++index) {
      agent_wish wish;
      wish.job = job;
      const std::uint32_t host = (index + turn) % nodes;
      wish.arguments = " --lr=" + std::to_string(host);
      made.push_back(&in.start_agent(in.host_at(host), wish));
      in.run_for(random.between(0ms, 300ms));
    }
    return made;
  }

  bool runs(const std::vector<agent*>& job) {
    return std::all_of(job.begin(), job.end(), [](const agent* each) {
      return each->alive() && each->group && each->group->alive != 0 && each->group->all_executed;
    });
  }

  // A worker of the first job has failed, which is charged, and the daemon's host dies.
  std::string play(duration patience) {
    const std::vector<agent*> first = start("first");
    if (!in.run_until_true([&] { return runs(first); }, 30s)) return "the first job does not run";
    in.fail_worker(*first[random.below(nodes)]->group, 0, cause_class::exit, 1);
    in.run_for(random.between(3s, 6s));
    for (agent* const each : first) {
      if (each->hosted != nullptr || random.chance(20)) in.kill_agent(*each);
    }
    in.run_for(random.between(0ms, 8s));
    const std::vector<agent*> second = start("second");
    // The second job does not wait for nodes of the first.
    if (!in.run_until_true([&] { return runs(second) || in.over(); }, patience)) {
      return in.violation() + "the second job does not run: " + in.current_daemon()->why();
    }
    if (in.over()) return in.violation();
    for (const agent* const each : second) {
      if (each->group->restarts_used != 0) return "the second job pays for the first";
    }
    in.run_for(10s);
    for (const agent* const each : first) {
      if (each->left() ? each->left()->exit_code != displaced_exit_code : each->alive())
        return "one of the first job is not told that its place is taken";
    }
    return in.violation() + (runs(second) ? "" : "the second job is disturbed");
  }

  static constexpr std::uint32_t nodes = 3;
  random_source random;
  world in;
};

std::string first_breach(std::uint64_t count, const mutant& broken, duration patience) {
  for (std::uint64_t seed = 0; seed < scaled(count); ++seed) {
    two_jobs story(seed, broken);
    const std::string problem = story.play(patience);
    if (!problem.empty()) return problem + " (seed " + std::to_string(seed) + ")";
  }
  return "nothing";
}

// Changes messages of agents on their way to the daemon.
mutant silent_about_jobs() {
  mutant made;
  made.daemon_event = [](daemon&, core::daemon_event& event) {
    auto* const said = std::get_if<core::agent_said>(&event);
    auto* const greeting = said == nullptr ? nullptr : std::get_if<hello>(&said->message);
    if (greeting != nullptr) greeting->job.reset();
    return true;
  };
  return made;
}

}  // namespace

TEST_CASE("a second job at an endpoint has a world of its own, and the first is told so") {
  REQUIRE(first_breach(500, {}, 6s) == "nothing");
}

TEST_CASE("mutant: no node says what was started") {
  REQUIRE_THAT(first_breach(20, silent_about_jobs(), 60s), StartsWith("jobs: workers of second"));
}

}  // namespace ddprun::simulation
