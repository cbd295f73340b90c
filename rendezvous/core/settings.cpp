#include "rendezvous/core/settings.hpp"

#include <algorithm>

namespace ddprun {
namespace {

// Seconds as a person writes them in --rdzv-conf: "10", "0.5", "2.125".
std::string seconds_text(duration value) {
  using namespace std::chrono;
  const auto whole = duration_cast<seconds>(value).count();
  auto rest = duration_cast<microseconds>(value).count() % 1'000'000;
  std::string text = std::to_string(whole);
  if (rest == 0) return text;
  std::string digits = std::to_string(1'000'000 + rest).substr(1);
  while (digits.back() == '0')
    digits.pop_back();
  return text + "." + digits;
}

}  // namespace

timers timers_for(duration node_timeout) {
  timers values;
  values.node_timeout = node_timeout;
  values.heartbeat_interval = std::min<duration>(node_timeout / 10, std::chrono::seconds(1));
  values.isolation_limit = node_timeout - 2 * values.heartbeat_interval;
  values.reconnect_grace = std::min<duration>(std::chrono::seconds(2), node_timeout);
  values.recovery_window = node_timeout;
  return values;
}

named_values to_named_values(const run_settings& settings) {
  const timers& timing = settings.timing;
  return {
      {"nnodes", std::to_string(settings.nodes_min) + ":" + std::to_string(settings.nodes_max)},
      {"spares", std::to_string(settings.spares_max)},
      {"max-restarts", std::to_string(settings.restarts_max)},
      {"max-node-losses", std::to_string(settings.node_losses_max)},
      {"store", std::string(to_string(settings.store))},
      {"on-join", std::string(to_string(settings.on_join))},
      {"node_timeout", seconds_text(timing.node_timeout)},
      {"heartbeat_interval", seconds_text(timing.heartbeat_interval)},
      {"reconnect_grace", seconds_text(timing.reconnect_grace)},
      {"isolation_limit", seconds_text(timing.isolation_limit)},
      {"stop_grace", seconds_text(timing.stop_grace)},
      {"drain_grace", seconds_text(timing.drain_grace)},
      {"kill_wait", seconds_text(timing.kill_wait)},
      {"start_timeout", seconds_text(timing.start_timeout)},
      {"join_timeout", seconds_text(timing.join_timeout)},
      {"last_call_timeout", seconds_text(timing.last_call_timeout)},
      {"settle", seconds_text(timing.settle)},
      {"settle_max", seconds_text(timing.settle_max)},
      {"recovery_window", seconds_text(timing.recovery_window)},
      {"linger", seconds_text(timing.linger)},
      {"orphan_limit", seconds_text(timing.orphan_limit)},
  };
}

std::string first_difference(const run_settings& ours, const run_settings& others) {
  const named_values left = to_named_values(ours);
  const named_values right = to_named_values(others);
  for (std::size_t index = 0; index < left.size(); ++index) {
    if (left[index].second != right[index].second) {
      return left[index].first + " is " + left[index].second + " here and " + right[index].second +
             " on the others";
    }
  }
  return {};
}

}  // namespace ddprun
