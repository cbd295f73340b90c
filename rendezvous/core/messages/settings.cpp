#include "rendezvous/core/messages/settings.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun {
namespace {

// Seconds as a person writes them in --rdzv-conf: "10", "0.5", "2.125".
std::string seconds_text(duration value) {
  using namespace std::chrono;
  if (value < duration::zero()) {
    // The most negative one has no positive twin.
    return "-" + seconds_text(-std::max(value, -duration::max()));
  }
  const auto whole = duration_cast<seconds>(value).count();
  const auto rest = duration_cast<microseconds>(value).count() % 1'000'000;
  std::string text = std::to_string(whole);
  if (rest == 0) return text;
  std::string digits = std::to_string(1'000'000 + rest).substr(1);
  while (digits.back() == '0')
    digits.pop_back();
  return text + "." + digits;
}

struct timer_setting {
  std::string_view name;
  duration timers::*member;
  duration min = duration::zero();
};

constexpr std::array timer_settings = {
    timer_setting{"node_timeout", &timers::node_timeout, node_timeout_min},
    timer_setting{"heartbeat_interval", &timers::heartbeat_interval, heartbeat_interval_min},
    timer_setting{"reconnect_grace", &timers::reconnect_grace, reconnect_grace_min},
    timer_setting{"isolation_limit", &timers::isolation_limit, isolation_limit_min},
    timer_setting{"stop_grace", &timers::stop_grace},
    timer_setting{"drain_grace", &timers::drain_grace},
    timer_setting{"kill_wait", &timers::kill_wait},
    timer_setting{"start_timeout", &timers::start_timeout},
    timer_setting{"join_timeout", &timers::join_timeout},
    timer_setting{"last_call_timeout", &timers::last_call_timeout},
    timer_setting{"settle", &timers::settle},
    timer_setting{"settle_max", &timers::settle_max},
    timer_setting{"recovery_window", &timers::recovery_window},
    timer_setting{"linger", &timers::linger},
    timer_setting{"orphan_limit", &timers::orphan_limit},
};

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
  named_values values = {
      {"nnodes", std::to_string(settings.nodes_min) + ":" + std::to_string(settings.nodes_max)},
      {"spares", std::to_string(settings.spares_max)},
      {"max-restarts", std::to_string(settings.restarts_max)},
      {"max-node-losses", std::to_string(settings.node_losses_max)},
      {"store", std::string(to_string(settings.store))},
      {"on-join", std::string(to_string(settings.on_join))},
  };
  for (const timer_setting& timer : timer_settings)
    values.emplace_back(timer.name, seconds_text(settings.timing.*timer.member));
  return values;
}

std::string problem_of(const timers& timing) {
  for (const timer_setting& timer : timer_settings) {
    const duration value = timing.*timer.member;
    if (value >= timer.min && value <= timer_max) continue;
    return std::string(timer.name) + " is " + seconds_text(value) + " s, and may be " +
           seconds_text(timer.min) + " to " + seconds_text(timer_max) + " s";
  }
  return {};
}

std::string problem_of(const run_settings& settings) {
  const std::uint32_t nodes_max = settings.nodes_max;
  if (settings.nodes_min == 0 || settings.nodes_min > nodes_max || nodes_max > nodes_per_run_max) {
    return "nnodes is " + std::to_string(settings.nodes_min) + ":" + std::to_string(nodes_max) +
           ", and may be MIN:MAX with 1 to MAX and 1 to " + std::to_string(nodes_per_run_max);
  }
  if (settings.spares_max > nodes_per_run_max) {
    return "spares is " + std::to_string(settings.spares_max) + ", and may be 0 to " +
           std::to_string(nodes_per_run_max);
  }
  return problem_of(settings.timing);
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
