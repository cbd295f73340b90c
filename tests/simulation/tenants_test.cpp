// Several run ids on one daemon, agents with settings and labels of their own, and one that lies:
// whatever happens to one run or one node, the others neither stop nor are charged.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

schedule of_three_runs(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.options.settings.nodes_max = 2;
  made.options.settings.nodes_min = std::min(made.options.settings.nodes_min, 2U);
  made.nodes = 6;
  made.run_ids = 3;
  return made;
}

// Two runs of two nodes; what happens to the second does not affect the first.
std::string neighbour_harmed(std::uint64_t seed) {
  schedule plan = quiet_schedule(seed, 2);
  world in(plan.options);
  random_source random = random_source(seed).fork(51);
  in.start_daemon(in.add_host());
  for (int index = 0; index < 2; ++index)
    in.start_agent(in.add_host());
  agent_wish other{.run_id = "other"};
  for (int index = 0; index < 2; ++index)
    in.start_agent(in.add_host(), other);
  const auto both = [&] { return in.checks().any_full(2) && in.checks().any_full(2, "other"); };
  if (!in.run_until_true(both, 30s)) return "no round";
  std::string harmed;
  in.on_killed_by_agent = [&](const worker_group& group) {
    if (group.run_id == "train") harmed = group.owner->greeting().node + " was stopped";
  };
  for (int event = 0; event < 4; ++event) {
    in.run_for(random.between(100ms, 3s));
    agent& hit = *in.agents()[2 + random.below(2)];
    if (hit.alive() && hit.group && random.chance(60)) {
      in.fail_worker(*hit.group, 0, cause_class::exit, 1);
    } else if (hit.alive()) {
      in.kill_agent(hit);
    }
    // Its settings differ from those of the rest of its run, and another node has the same label.
    agent_wish odd{.run_id = random.chance(50) ? "other" : "train", .label = "gpu"};
    odd.settings = plan.options.settings;
    odd.settings->restarts_max = 7;
    if (random.chance(50)) in.start_agent(in.add_host(), odd);
  }
  in.run_for(40s);
  if (harmed.empty() && in.agents()[0]->group->restarts_used != 0) harmed = "it was charged";
  if (harmed.empty() && !in.checks().any_full(2)) harmed = "it does not run";
  // After the storm the daemon remembers the agents that are there, and no others.
  for (const std::string run_id : {"train", "other"}) {
    const core::run_sizes sizes = in.current_daemon()->run(run_id)->sizes();
    const std::size_t here = in.agents_here(run_id);
    const bool waits_for_some = in.current_daemon()->run(run_id)->phase() == run_phase::stopping;
    if (sizes.nodes > here + (waits_for_some ? 2 : 0) || sizes.settings_groups > 2)
      harmed += " " + run_id + " keeps " + std::to_string(sizes.nodes) + " nodes of " +
                std::to_string(here) + ", " + std::to_string(sizes.settings_groups) + " settings";
  }
  return in.violation() + harmed;
}

// Changes a status in any way that its reader can still read.
void twist(status& news, random_source& random, instance_id running) {
  const auto any = [&] { return random.next() >> (12 + random.below(52)); };
  if (random.chance(70)) news.instance = running;
  if (random.chance(50)) news.round = 1 + random.below(4);
  if (random.chance(30)) news.round_told = any();
  if (random.chance(30)) news.desired_seq = any();
  if (random.chance(30)) news.restarts_used = static_cast<std::uint32_t>(any());
  const member_phase phases[] = {member_phase::running, member_phase::failed,
                                 member_phase::succeeded, member_phase::stopped,
                                 member_phase::preparing};
  if (random.chance(60)) news.phase = phases[random.below(5)];
  if (random.chance(40)) {
    assignment assigned;
    assigned.group_rank = static_cast<std::uint32_t>(random.below(4));
    assigned.group_world_size =
        static_cast<std::uint32_t>(assigned.group_rank + 1 + random.below(3));
    assigned.world_size = 8;
    assigned.master_address = "10.0.0.1";
    assigned.master_port = 29500;
    assigned.tether_port = 29500;
    news.assignment = assigned;
  }
}

// Three nodes run; a fourth, which may wait as a spare, sends whatever it likes.
std::string harmed_by_a_liar(std::uint64_t seed) {
  schedule plan = quiet_schedule(seed, 3);
  plan.options.settings.spares_max = 2;
  auto random = std::make_shared<random_source>(random_source(seed).fork(52));
  auto running = std::make_shared<instance_id>(0);
  plan.options.mutation.agent_effects = [=](agent& by, const core::agent_event&,
                                            core::agent_effects& effects) {
    if (by.index != 3) return;
    for (auto& effect : effects) {
      auto* const sent = std::get_if<core::send_to_daemon>(&effect);
      if (sent == nullptr) continue;
      if (auto* const first = std::get_if<hello>(&sent->message))
        twist(first->state, *random, *running);
      if (auto* const news = std::get_if<status>(&sent->message)) twist(*news, *random, *running);
    }
  };
  world in(plan.options);
  in.start_daemon(in.add_host());
  for (int index = 0; index < 3; ++index)
    in.start_agent(in.add_host());
  if (!in.run_until_true([&] { return in.checks().any_full(3); }, 30s)) return "no round";
  *running = in.agents()[0]->group->instance;
  std::string harmed;
  in.on_killed_by_agent = [&](const worker_group& group) {
    if (group.owner->index != 3) harmed = group.owner->greeting().node + " was stopped";
  };
  in.start_agent(in.add_host());
  for (int time = 0; time < 5 && harmed.empty(); ++time) {
    in.run_for(4s);
    agent& liar = *in.agents()[3];
    if (liar.alive() && liar.connected())
      in.net().break_connection(*liar.daemon_connection(), true);
  }
  if (!harmed.empty() || in.over()) return in.violation() + harmed;
  in.finish_training();
  const auto left = [&] {
    return std::all_of(in.agents().begin(), in.agents().begin() + 3,
                       [](const auto& each) { return each->left().has_value(); });
  };
  if (!in.run_until_true(left, 60s)) return in.violation() + "nobody leaves";
  for (std::size_t index = 0; index < 3; ++index)
    if (in.agents()[index]->left()->exit_code != 0) return "one leaves with another code than 0";
  return in.violation();
}

std::string first_harm(std::uint64_t count, const std::function<std::string(std::uint64_t)>& play) {
  const std::uint64_t only = number_from("DDPRUN_SIMULATION_SEED", ~0ULL);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    if (only == ~0ULL ? seed >= scaled(count) : seed != only) continue;
    const std::string problem = play(seed);
    if (!problem.empty()) return "--seed=" + std::to_string(seed) + ": " + problem;
  }
  return {};
}

}  // namespace

TEST_CASE("random faults on three runs of one daemon") {
  REQUIRE(play_family("random faults on three runs of one daemon", 500, of_three_runs) == "");
}

TEST_CASE("a run is not disturbed by its neighbour's faults or by refused nodes") {
  REQUIRE(first_harm(200, neighbour_harmed) == "");
}

TEST_CASE("a node that lies harms no other run") {
  REQUIRE(first_harm(200, harmed_by_a_liar) == "");
}

}  // namespace ddprun::simulation
