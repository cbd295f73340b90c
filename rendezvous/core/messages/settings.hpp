// Settings are the values on which all nodes of a run must agree.
//
// Every hello carries them as a list of name = value, so that a refusal can name the difference.
// The daemon returns the timers in the welcome, so that both sides use the same.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// The timers of a run. All are positive unless their row in settings_table.hpp, which says what
// each is for, lets them be 0.
struct timers {
  duration node_timeout = std::chrono::seconds(10);
  duration heartbeat_interval = std::chrono::seconds(1);
  duration reconnect_grace = std::chrono::seconds(2);
  duration isolation_limit = std::chrono::seconds(8);
  duration failure_grace = std::chrono::seconds(2);
  duration stop_grace = std::chrono::seconds(5);
  duration drain_grace = std::chrono::seconds(30);
  duration kill_wait = std::chrono::seconds(5);
  duration start_timeout = std::chrono::seconds(60);
  duration startup_window = std::chrono::seconds(10);
  duration backoff_max = std::chrono::seconds(30);
  duration restart_window = duration::zero();
  duration join_timeout = std::chrono::seconds(600);
  duration last_call_timeout = std::chrono::seconds(30);
  duration settle = std::chrono::milliseconds(500);
  duration settle_max = std::chrono::seconds(5);
  duration recovery_window = std::chrono::seconds(10);
  duration linger = std::chrono::seconds(10);
  duration orphan_limit = std::chrono::minutes(10);

  bool operator==(const timers&) const = default;
};

// The longest value of a timer: a run waits for people, not for years. --rdzv-conf accepts no more
// either.
inline constexpr duration timer_max = std::chrono::hours(24 * 30);

inline constexpr std::uint32_t nodes_per_run_max = 1'000'000;
inline constexpr std::uint32_t workers_per_node_max = 4096;

// The timers that follow from this `node_timeout`.
timers timers_for(duration node_timeout);

// Their ranges are in their rows in settings_table.hpp.
struct run_settings {
  std::uint32_t nodes_min = 1;
  std::uint32_t nodes_max = 1;
  std::uint32_t spares_max = 0;          // nodes beyond nodes_max that may wait; 0: refused
  std::uint32_t restarts_max = 0;        // charged restarts of an instance
  std::uint32_t quick_failures_max = 2;  // alike and in a row; 0: without limit
  std::uint32_t node_failures_max = 0;   // root causes on one node; 0: without limit
  std::uint32_t node_losses_max = 10;    // within one hour
  store_mode store = store_mode::agent;
  join_policy on_join = join_policy::wait;
  rank_policy ranks = rank_policy::hint;  // exact: for a fixed number of nodes only
  timers timing;

  bool operator==(const run_settings&) const = default;
};

using named_values = std::vector<std::pair<std::string, std::string>>;

// All settings in a fixed order, as option names and values that a person would type
// ("nnodes" = "1:2", "max-restarts" = "3", "node_timeout" = "10").
named_values to_named_values(const run_settings& settings);

// The first setting that no machine can work with, as "reconnect_grace is 31536000 s, and may be
// 0.001 to 2592000 s"; empty: there is none. A peer's settings are checked by it.
std::string problem_of(const timers& timing);
std::string problem_of(const run_settings& settings);

// A setting in which two nodes differ, as a person would type it: "nnodes", "2:2" and "1:4".
struct setting_difference {
  std::string name;
  std::string one;
  std::string other;
};

// Takes over the timers that all nodes have from the first one (timer_row::is_of_first).
void take_from_first(timers& own, const timers& first);

// Whether both can be nodes of one run: they agree in all that is compared.
bool agree(const run_settings& one, run_settings other);

// The first difference; none: the two agree.
std::optional<setting_difference> first_difference(const run_settings& one, run_settings other);

}  // namespace ddprun
