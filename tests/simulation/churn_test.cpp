// Ten thousand nodes, or a thousand in a small test run: racks die over seconds and come back, one
// node joins and leaves again and again, one reads nothing. Besides the invariants this checks that
// the queues stay short, and that everything is over in bounded time.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t nodes_least = 500;  // of which 300 lose their power

schedule churn(std::uint32_t nodes) {
  schedule made = quiet_schedule(1, nodes);
  run_settings& settings = made.options.settings;
  settings.nodes_min = nodes / 2;
  settings.nodes_max = nodes;
  settings.spares_max = 100;
  settings.node_losses_max = 1000;
  settings.timing = timers_for(20s);
  settings.timing.heartbeat_interval = 5s;
  settings.timing.isolation_limit = 10s;
  settings.timing.stop_grace = 1s;
  settings.timing.last_call_timeout = 1s;
  made.options.events_most = 100'000'000;
  return made;
}

}  // namespace

TEST_CASE("churn of thousands of nodes") {
  const std::uint64_t quick = tests::is_sanitized ? nodes_least : 1000;
  const std::uint64_t scale =
      number_from("DDPRUN_SIMULATION_SCHEDULES", tests::is_thorough() ? schedules_default : quick);
  const auto nodes =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(scale, nodes_least, 10'000));
  const schedule plan = churn(nodes);
  world in(plan.options);
  host& daemon_host = in.add_host();
  in.start_daemon(daemon_host);
  for (std::uint32_t index = 0; index < nodes; ++index) {
    host& on = in.add_host();
    in.time().after(in.random().between(0ms, 1s),
                    [&in, &on] { in.start_agent(on, {.worker_count = 1}); });
  }
  const auto began = std::chrono::steady_clock::now();
  const auto full = [&] { return in.checks().any_full(nodes / 2); };
  REQUIRE(in.run_until_true(full, 60s));
  INFO(in.violation());

  // Three racks of a hundred die over two seconds each; one node flaps; one reads nothing.
  for (std::uint32_t rack = 0; rack < 3; ++rack) {
    for (std::uint32_t index = 1; index <= 100; ++index) {
      host& on = in.host_at(1000 % nodes * rack / 3 + index);
      in.time().after(in.random().between(1s, 3s), [&in, &on] { in.lose_power(on); });
    }
  }
  agent& deaf = *in.agents()[nodes / 2];
  deaf.stand_still();
  for (int time = 0; time < 10; ++time) {
    in.time().after(time * 1500ms, [&in] { in.start_agent(in.add_host(), {.worker_count = 1}); });
    in.time().after(time * 1500ms + 700ms, [&in] { in.kill_agent(*in.agents().back()); });
  }
  in.run_for(30s);
  REQUIRE(in.violation() == "");
  REQUIRE(in.run_until_true(full, 120s));
  deaf.continue_after_stop();
  in.run_for(2s);
  REQUIRE(in.violation() == "");
  in.finish_training();
  const auto nobody = [&] {
    return std::none_of(in.agents().begin(), in.agents().end(),
                        [](const auto& each) { return each->alive(); });
  };
  const bool all_left = in.run_until_true(nobody, 200s);
  REQUIRE(in.violation() == "");
  REQUIRE(all_left);
  REQUIRE(in.checks().rounds_started() <= 8);
  std::printf("churn of %u nodes: %llu rounds, %.0f s simulated in %.1f s, %llu messages\n", nodes,
              static_cast<unsigned long long>(in.checks().rounds_started()),
              std::chrono::duration<double>(in.now()).count(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
              static_cast<unsigned long long>(in.net().messages()));
}

}  // namespace ddprun::simulation
