#include "rendezvous/core/messages/settings_table.hpp"

namespace ddprun {
namespace {

// A field without a row must not compile.
static_assert(timer_table.size() * sizeof(duration) == sizeof(timers));

template <typename Row>
constexpr std::size_t fields_of = std::same_as<Row, range_row> ? 2 : 1;

constexpr std::size_t fields_with_rows() {
  std::size_t count = 0;
  for_each_setting([&]<typename Row>(const Row&) { count += fields_of<Row>; });
  return count;
}

constexpr std::size_t fields_named() {
  const run_settings settings;
  // A new field breaks this binding, and so asks for a row.
  const auto& [nodes_min, nodes_max, spares, restarts, quick, failures, losses, store, on_join,
               ranks, timing] = settings;
  const auto named = std::tie(nodes_min, nodes_max, spares, restarts, quick, failures, losses,
                              store, on_join, ranks);
  return timing == timers() ? std::tuple_size_v<decltype(named)> : 0;
}
static_assert(fields_with_rows() == fields_named());

std::string is_longer(std::string_view name, duration value, std::string_view other_name,
                      duration other) {
  return std::string(name) + " " + to_text(value) + " is longer than " + std::string(other_name) +
         " " + to_text(other);
}

std::string problem_in(const range_row& row, const run_settings& settings) {
  const std::uint32_t max = settings.*row.max_field;
  if (settings.*row.min_field != 0 && settings.*row.min_field <= max && max <= row.max) return {};
  return std::string(row.words.name) + " is " + value_text(row, settings) +
         ", and may be MIN:MAX with 1 to MAX and 1 to " + std::to_string(row.max);
}

std::string problem_in(const count_row& row, const run_settings& settings) {
  if (settings.*row.field <= row.max) return {};
  return std::string(row.words.name) + " is " + value_text(row, settings) + ", and may be 0 to " +
         std::to_string(row.max);
}

// A word setting needs no check: only its own words can be read.
template <typename Word>
std::string problem_in(const word_row<Word>&, const run_settings&) {
  return {};
}

}  // namespace

std::string slow_heartbeat(const timers& timing) {
  if (timing.heartbeat_interval * 3 <= timing.node_timeout) return {};
  return "heartbeat_interval " + to_text(timing.heartbeat_interval) +
         " is more than a third of node_timeout " + to_text(timing.node_timeout);
}

std::string long_grace(const timers& timing) {
  if (timing.reconnect_grace <= timing.node_timeout) return {};
  return is_longer("reconnect_grace", timing.reconnect_grace, "node_timeout", timing.node_timeout);
}

std::string useless_isolation(const timers& timing) {
  const duration least = timing.heartbeat_interval * 2;
  const duration most = timing.node_timeout - timing.heartbeat_interval;
  if (timing.isolation_limit >= least && timing.isolation_limit <= most) return {};
  return "isolation_limit " + to_text(timing.isolation_limit) +
         " must be from 2 heartbeat_interval to node_timeout - heartbeat_interval (" +
         to_text(least) + " to " + to_text(most) + ")";
}

std::string long_settle(const timers& timing) {
  if (timing.settle <= timing.settle_max) return {};
  return is_longer("settle", timing.settle, "settle_max", timing.settle_max);
}

// A shorter window would refill what failures soon after the start use up.
std::string early_refill(const timers& timing) {
  const duration window = timing.restart_window;
  if (window == duration::zero() || window >= timing.startup_window) return {};
  return "restart_window " + to_text(window) + " is shorter than startup_window " +
         to_text(timing.startup_window) +
         ": failures at the start would never use up --max-restarts";
}

std::string value_text(const range_row& row, const run_settings& settings) {
  return std::to_string(settings.*row.min_field) + ":" + std::to_string(settings.*row.max_field);
}

std::string value_text(const count_row& row, const run_settings& settings) {
  return std::to_string(settings.*row.field);
}

std::string seconds_text(duration value) {
  using namespace std::chrono;
  if (value < duration::zero()) {
    // The smallest number has no positive counterpart.
    return "-" + seconds_text(-std::max(value, -duration::max()));
  }
  const auto whole = duration_cast<seconds>(value).count();
  const auto rest = duration_cast<microseconds>(value).count() % 1'000'000;
  std::string text = std::to_string(whole);
  if (rest == 0) return text;
  // The added million keeps the leading zeros.
  std::string digits = std::to_string(1'000'000 + rest).substr(1);
  while (digits.back() == '0')
    digits.pop_back();
  return text + "." + digits;
}

timers timers_for(duration node_timeout) {
  return read_timers([&](const timer_row& row, duration& value) {
    if (row.field == &timers::node_timeout) value = node_timeout;
  });
}

named_values to_named_values(const run_settings& settings) {
  named_values values;
  for_each_setting(
      [&](const auto& row) { values.emplace_back(row.words.name, value_text(row, settings)); });
  for (const timer_row& row : timer_table)
    values.emplace_back(row.name, seconds_text(settings.timing.*row.field));
  return values;
}

std::string contradiction_in(const timers& timing) {
  for (const timer_row& row : timer_table) {
    if (row.contradiction == nullptr) continue;
    if (std::string text = row.contradiction(timing); !text.empty()) return text;
  }
  return {};
}

std::string problem_of(const timers& timing) {
  for (const timer_row& row : timer_table) {
    const duration value = timing.*row.field;
    if (value >= row.min && value <= timer_max) continue;
    return std::string(row.name) + " is " + seconds_text(value) + " s, and may be " +
           seconds_text(row.min) + " to " + seconds_text(timer_max) + " s";
  }
  return {};
}

std::string problem_of(const run_settings& settings) {
  std::string text;
  for_each_setting([&](const auto& row) {
    if (text.empty()) text = problem_in(row, settings);
  });
  if (text.empty() && settings.ranks == rank_policy::exact &&
      settings.nodes_min != settings.nodes_max) {
    text = "nnodes is " + std::to_string(settings.nodes_min) + ":" +
           std::to_string(settings.nodes_max) +
           ": where --node-rank is the group rank, their number is fixed";
  }
  return text.empty() ? problem_of(settings.timing) : text;
}

void take_from_first(timers& own, const timers& first) {
  for (const timer_row& row : timer_table) {
    if (row.is_of_first) own.*row.field = first.*row.field;
  }
}

bool agree(const run_settings& one, run_settings other) {
  take_from_first(other.timing, one.timing);
  return one == other;
}

std::optional<setting_difference> first_difference(const run_settings& one, run_settings other) {
  take_from_first(other.timing, one.timing);
  if (one == other) return std::nullopt;
  const named_values left = to_named_values(one);
  const named_values right = to_named_values(other);
  for (std::size_t index = 0; index < left.size(); ++index) {
    if (left[index].second != right[index].second) {
      return setting_difference{left[index].first, left[index].second, right[index].second};
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
