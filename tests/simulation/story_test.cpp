// Families with an exact expectation: what a dead daemon costs (nothing), what one root cause costs
// (one restart, whatever order its effects are reported in), and what a round costs in bytes.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

bool plays_one() {
  return std::getenv("DDPRUN_SIMULATION_SEED") != nullptr;
}

// A complete round, ready for the story. If a single seed is run, its transcript is printed.
struct running_world {
  explicit running_world(schedule plan) : in(traced(plan.options)) {
    daemon_host = &in.add_host();
    in.start_daemon(*daemon_host);
    for (std::uint32_t index = 0; index < plan.nodes; ++index)
      in.start_agent(in.add_host());
    const std::uint32_t nodes = plan.nodes;
    runs = in.run_until_true([this, nodes] { return in.checks().any_full(nodes); }, 30s);
  }
  ~running_world() {
    if (plays_one()) std::fputs(in.transcript().c_str(), stdout);
  }
  static world_options traced(world_options options) {
    options.tracing = plays_one();
    return options;
  }
  world in;
  host* daemon_host = nullptr;
  bool runs = false;
};

std::uint64_t seed_first() {
  return number_from("DDPRUN_SIMULATION_SEED", 0);
}

std::uint64_t seed_end(std::uint64_t count) {
  if (plays_one()) return seed_first() + 1;
  return scaled(count, 1);
}

}  // namespace

// Design section 11, invariant 4.
TEST_CASE("members connected to each other and a dead daemon: no worker dies") {
  for (std::uint64_t seed = seed_first(); seed < seed_end(200); ++seed) {
    schedule plan = quiet_schedule(seed, static_cast<std::uint32_t>(1 + seed % 4));
    plan.options.settings.timing.orphan_limit = 60s;  // the daemon is away for 40 s
    running_world story(plan);
    INFO("seed " << seed);
    REQUIRE(story.runs);
    std::string died;
    story.in.on_killed_by_agent = [&](const worker_group& group) {
      died = group.owner->greeting().node + ": " + group.owner->why();
    };
    const round_number round = story.in.agents().front()->group->round;
    story.in.run_for(story.in.random().between(0ms, 3s));
    story.in.kill_daemon();
    story.in.run_for(40s);
    REQUIRE(died == "");
    story.in.start_daemon(*story.daemon_host);
    story.in.run_for(30s);
    REQUIRE(died == "");
    REQUIRE(story.in.violation() == "");
    REQUIRE(story.in.checks().any_full(plan.nodes));
    REQUIRE(story.in.agents().front()->group->round == round);
  }
}

TEST_CASE(
    "one root cause costs one restart, in whatever order its secondary failures are reported") {
  for (std::uint64_t seed = seed_first(); seed < seed_end(500); ++seed) {
    schedule plan = quiet_schedule(seed, 4);
    plan.options.double_percent = 50;
    // The first death is noticed before another death follows from it, but may be reported long
    // after.
    plan.options.habits.collateral_least = 2ms;
    plan.options.habits.collateral_most = std::chrono::milliseconds(2 + seed % 3000);
    running_world story(plan);
    INFO("seed " << seed);
    REQUIRE(story.runs);
    story.in.run_for(1s);
    random_source random = random_source(seed).fork(3);
    auto& agents = story.in.agents();
    const agent& first = *agents[random.below(agents.size())];
    story.in.fail_worker(*first.group, random.below(2), cause_class::signal, 11);
    // Connections that break in the meantime delay and repeat the reports.
    for (int breaks = 0; breaks < 3; ++breaks) {
      story.in.run_for(random.between(0ms, 400ms));
      agent& hit = *agents[random.below(agents.size())];
      if (random.chance(50) && hit.connected())
        story.in.net().break_connection(*hit.daemon_connection(), true);
    }
    REQUIRE(story.in.run_until_true(
        [&] { return first.group->round == 2 && story.in.checks().any_full(4); }, 30s));
    REQUIRE(story.in.violation() == "");
    REQUIRE(first.group->restarts_used == 1);
    const auto view = story.in.current_daemon()->run()->view({});
    REQUIRE(view.root_cause);
    REQUIRE(view.root_cause->kind == cause_class::signal);
    REQUIRE(view.root_cause->code == 11);
    REQUIRE(view.root_cause->node == first.greeting().node);
  }
}

TEST_CASE("the root cause is reported even if it ends last, and secondary failures cost nothing") {
  for (std::uint64_t seed = seed_first(); seed < seed_end(300); ++seed) {
    schedule plan = quiet_schedule(seed, 4);
    plan.options.double_percent = 50;
    plan.options.habits.collateral_percent = 0;
    running_world story(plan);
    INFO("seed " << seed);
    REQUIRE(story.runs);
    story.in.run_for(1s);
    random_source random = random_source(seed).fork(5);
    auto& agents = story.in.agents();
    // It is also the last worker of its node to end.
    const agent& guilty = *agents[random.below(agents.size())];
    for (const auto& victim : agents) {
      story.in.fail_worker(*victim->group, 0, cause_class::exit, 1, true);
      story.in.run_for(random.between(0ms, 350ms));
    }
    story.in.fail_worker(*guilty.group, 1, cause_class::exit, 3);
    REQUIRE(story.in.run_until_true(
        [&] { return guilty.group->round == 2 && story.in.checks().any_full(4); }, 30s));
    REQUIRE(story.in.violation() == "");
    REQUIRE(guilty.group->restarts_used == 1);
    const auto view = story.in.current_daemon()->run()->view({});
    REQUIRE(view.root_cause);
    REQUIRE_FALSE(view.root_cause->is_secondary);
    REQUIRE(view.root_cause->code == 3);
    REQUIRE(view.root_cause->node == guilty.greeting().node);
  }
}

// This counts everything but heartbeats and their acks, which do not belong to the round.
TEST_CASE("a restart costs each member some 1 KiB each way at most") {
  constexpr std::uint32_t nodes = 64;
  schedule plan = quiet_schedule(1, nodes);
  running_world story(plan);
  REQUIRE(story.runs);
  story.in.run_for(3s);
  std::map<std::uint64_t, std::size_t> down;
  std::map<std::uint64_t, std::size_t> up;
  std::map<std::uint64_t, std::string> last;
  story.in.on_sent = [&](const connection& over, int end, const parcel& message) {
    if (over.ends[1].owner != story.in.current_daemon()) return;
    if (end == 1) {
      const auto& word = std::get<std::shared_ptr<const daemon_message>>(*message.content);
      if (!std::holds_alternative<ack>(*word)) down[over.id] += message.bytes;
      return;
    }
    const auto* const news = std::get_if<status>(&std::get<agent_message>(*message.content));
    if (news == nullptr) return;
    const std::string shape = std::to_string(news->round) + std::string(to_string(news->phase)) +
                              std::to_string(news->desired_seq);
    const bool heartbeat = std::exchange(last[over.id], shape) == shape;
    if (!heartbeat) up[over.id] += message.bytes;
  };
  const agent& first = *story.in.agents()[5];
  story.in.fail_worker(*first.group, 0, cause_class::signal, 11);
  REQUIRE(story.in.run_until_true(
      [&] { return first.group->round == 2 && story.in.checks().any_full(nodes); }, 30s));
  const auto report = [](const char* way, const std::map<std::uint64_t, std::size_t>& bytes) {
    std::size_t most = 0;
    std::size_t total = 0;
    for (const auto& [id, count] : bytes) {
      most = std::max(most, count);
      total += count;
    }
    std::printf("a restart of %u nodes, %s: %zu bytes for each member, %zu the most for one\n",
                nodes, way, total / bytes.size(), most);
    return most;
  };
  REQUIRE(report("from the daemon", down) <= 1152);  // including when each rank ended
  REQUIRE(report("to the daemon", up) <= 1024);
}

}  // namespace ddprun::simulation
