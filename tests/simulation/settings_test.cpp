// A person mistypes an option on one node before the first round: that node is told so at once, and
// the others go on waiting for the nodes that are still missing.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t settings_nodes = 3;

// The daemon lives in the agent of host 0, which may be started last but one. In whatever order the
// nodes come, the node with the other settings is the one that leaves.
std::string play_two_settings(std::uint64_t seed) {
  world_options options = quiet_schedule(seed, settings_nodes).options;
  options.embeds = true;
  options.embedded_recovers = false;
  world in(options);
  random_source random = random_source(seed).fork(59);
  for (std::uint32_t index = 0; index <= settings_nodes; ++index)
    in.add_host();
  in.set_endpoint(in.host_at(0));

  agent_wish wish;
  wish.job = "one";
  agent_wish odd_wish = wish;
  odd_wish.settings = options.settings;
  odd_wish.settings->restarts_max += 1;
  std::vector<std::uint32_t> order = {0, 1, settings_nodes};
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  agent* odd = nullptr;
  std::vector<agent*> right;
  for (const std::uint32_t host : order) {
    agent& made = in.start_agent(in.host_at(host), host == settings_nodes ? odd_wish : wish);
    host == settings_nodes ? void(odd = &made) : right.push_back(&made);
    in.run_for(random.between(0ms, 1000ms));
  }
  if (!in.run_until_true([&] { return odd->left().has_value(); }, 10s))
    return in.violation() +
           "nobody is told that the settings differ: " + in.current_daemon()->why();
  if (odd->left()->exit_code != refused_exit_code) return "the odd one is not refused";
  right.push_back(&in.start_agent(in.host_at(2), wish));
  const auto runs = [](const agent* each) {
    return each->alive() && each->group && each->group->alive != 0 && each->group->all_executed;
  };
  if (!in.run_until_true([&] { return std::all_of(right.begin(), right.end(), runs); }, 30s))
    return in.violation() + "the others do not run: " + in.current_daemon()->why();
  return in.violation();
}

}  // namespace

TEST_CASE("before the first round a node with other settings leaves at once, and the others run") {
  for (std::uint64_t seed = 0; seed < scaled(500); ++seed) {
    INFO("seed " << seed);
    REQUIRE(play_two_settings(seed) == "");
  }
}

}  // namespace ddprun::simulation
