// Two jobs at one endpoint. The daemon lives in an agent of the first job, and ends with it. An
// agent of the second job, on the same host, opens the next daemon; another agent of that job runs
// on another host.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

struct jobs_side_by_side {
  explicit jobs_side_by_side(world_options options) : in(std::move(options)) {
    host& shared = in.add_host();
    in.set_endpoint(shared);
    run_settings alone = in.settings();
    alone.nodes_min = alone.nodes_max = 1;
    first = &in.start_agent(shared, {.run_id = "first", .settings = alone});
    in.run_for(100ms);
    second = &in.start_agent(shared);
    in.start_agent(in.add_host());
    runs = in.run_until_true(
        [this] { return in.checks().any_full(1, "first") && in.checks().any_full(2); }, 30s);
  }

  bool is_in_a_later_round_than(round_number round) {
    return in.run_until_true(
        [=, this] {
          return second->group != nullptr && second->group->round > round &&
                 in.checks().any_full(2);
        },
        40s);
  }

  world in;
  agent* first = nullptr;
  agent* second = nullptr;
  bool runs = false;
};

world_options options_of(std::uint64_t seed) {
  world_options options = quiet_schedule(seed, 2).options;
  options.embeds = true;
  const journal_kind kinds[] = {journal_kind::none, journal_kind::kept};
  options.journal = kinds[seed % 2];
  return options;
}

}  // namespace

TEST_CASE("an agent that ends hands its daemon over to another of its host, and the run goes on") {
  for (std::uint64_t seed = 0; seed < scaled(200); ++seed) {
    jobs_side_by_side story(options_of(seed));
    INFO("seed " << seed);
    REQUIRE(story.runs);
    REQUIRE(story.first->hosted != nullptr);
    REQUIRE(story.second->hosted == nullptr);
    const round_number round = story.second->group->round;
    std::string died;
    story.in.on_killed_by_agent = [&](const worker_group& group) {
      if (group.owner != story.first) died = group.owner->greeting().node;
    };
    seed % 4 < 2 ? story.in.kill_agent(*story.first) : story.in.signal(*story.first, 15);
    // Longer than an agent lingers, and longer than others wait for a daemon.
    story.in.run_for(story.in.settings().timing.orphan_limit + 10s);
    REQUIRE(story.in.violation() == "");
    REQUIRE(died == "");
    REQUIRE(story.second->hosted != nullptr);
    REQUIRE(story.second->group->round == round);
    REQUIRE(story.in.checks().any_full(2));
    // Failures from now on are still handled.
    story.in.fail_worker(*story.second->group, 0, cause_class::exit, 3);
    REQUIRE(story.is_in_a_later_round_than(round));
    REQUIRE(story.in.violation() == "");
    REQUIRE(story.second->group->restarts_used == 1);
  }
}

}  // namespace ddprun::simulation
