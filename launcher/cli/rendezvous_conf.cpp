#include "launcher/cli/rendezvous_conf.hpp"

#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace ddprun::launcher {
namespace {

constexpr std::array<std::string_view, 4> torchrun_keys = {
    "is_host", "store_type", "keep_alive_interval", "keep_alive_max_attempt"};

struct ignored_key {
  std::string_view name;
  std::string_view instead;
};

constexpr std::array ignored_keys = {
    ignored_key{"timeout", "torchrun's c10d rendezvous does not read it either; see join_timeout"},
    ignored_key{"read_timeout", "see node_timeout and join_timeout"},
    ignored_key{"close_timeout", "the daemon closes a run at once"},
    ignored_key{"heartbeat_timeout", "see node_timeout"},
    ignored_key{"rank", "see --node-rank"},
    ignored_key{"cas_backoff_max_seconds", "nodes do not compete for the rendezvous' state here"},
};

using pairs = std::map<std::string, std::string, std::less<>>;

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return text;
}

cli::parsed<pairs> split_pairs(std::string_view given, std::string_view text) {
  pairs found;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (without_blanks(part).empty()) continue;  // a surplus comma
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = without_blanks(part.substr(0, equals));
    const std::string_view value = without_blanks(part.substr(std::min(equals + 1, part.size())));
    if (key.empty() || value.empty()) {
      return cli::wrong(given, "'" + std::string(part) + "' is not KEY=VALUE");
    }
    found.insert_or_assign(std::string(key), std::string(value));
  }
  return found;
}

cli::checked check_key(std::string_view given, const std::string& key) {
  std::vector<std::string_view> known(torchrun_keys.begin(), torchrun_keys.end());
  for (const timer_row& row : timer_table)
    known.push_back(row.name);
  for (const ignored_key& ignored : ignored_keys)
    known.push_back(ignored.name);
  if (std::find(known.begin(), known.end(), key) != known.end()) return {};
  const std::string_view close = cli::nearest(key, known);
  std::string text = "unknown key '" + key + "'";
  if (!close.empty()) text += "; did you mean '" + std::string(close) + "'?";
  return cli::wrong(given, text);
}

bool has_keep_alive(const pairs& values) {
  return values.contains("keep_alive_interval") || values.contains("keep_alive_max_attempt");
}

// keep_alive_interval x keep_alive_max_attempt, as in torchrun.
cli::parsed<duration> read_keep_alive(std::string_view given, const pairs& values) {
  duration interval = std::chrono::seconds(5);
  std::uint32_t attempts = 3;
  if (const auto found = values.find("keep_alive_interval"); found != values.end()) {
    const auto read =
        cli::read_seconds(std::string(given) + ", keep_alive_interval", found->second, false);
    if (!read) return read.error();
    interval = *read;
  }
  if (const auto found = values.find("keep_alive_max_attempt"); found != values.end()) {
    const auto read = cli::read_count(std::string(given) + ", keep_alive_max_attempt",
                                      found->second, "attempts", 1, 1000);
    if (!read) return read.error();
    attempts = *read;
  }
  return interval * attempts;
}

// Reads the timers by name; missing ones follow from node_timeout, which torchrun's keys may set.
cli::parsed<timers> read_typed_timers(std::string_view given, const pairs& values) {
  cli::checked wrong_value;
  const auto take = [&](duration& value, const auto& read) {
    if (read) {
      value = *read;
    } else if (!wrong_value) {
      wrong_value = read.error();
    }
  };
  const timers timing = read_timers([&](const timer_row& row, duration& value) {
    if (const auto found = values.find(row.name); found != values.end()) {
      const std::string where = std::string(given) + ", " + std::string(row.name);
      take(value, cli::read_seconds(where, found->second, row.may_be_zero));
    } else if (row.field == &timers::node_timeout && has_keep_alive(values)) {
      take(value, read_keep_alive(given, values));
    }
  });
  // Without effect if node_timeout is given, but read anyway: a mistake must not go unnoticed.
  if (const auto read = read_keep_alive(given, values); !read && !wrong_value) {
    wrong_value = read.error();
  }
  if (wrong_value) return *wrong_value;
  if (const std::string text = contradiction_in(timing); !text.empty())
    return cli::wrong(given, text);
  if (const std::string text = problem_of(timing); !text.empty()) return cli::wrong(given, text);
  return timing;
}

// Ignores case, as torchrun does.
bool is_tcp(std::string_view word) {
  constexpr std::string_view tcp = "tcp";
  return std::equal(word.begin(), word.end(), tcp.begin(), tcp.end(),
                    [](char left, char right) { return (left | 0x20) == right; });
}

cli::checked read_torchrun_keys(std::string_view given, const pairs& values,
                                rendezvous_conf& conf) {
  if (const auto found = values.find("is_host"); found != values.end()) {
    conf.is_host = cli::read_truth(found->second);
    if (!conf.is_host) return cli::wrong(given, "is_host is true or false");
  }
  if (const auto found = values.find("store_type"); found != values.end()) {
    if (!is_tcp(found->second)) {
      return cli::wrong(given, "store_type=" + found->second + " is not supported; only tcp is");
    }
  }
  for (const ignored_key& ignored : ignored_keys) {
    if (values.contains(ignored.name)) {
      conf.notes.push_back("--rdzv-conf " + std::string(ignored.name) +
                           " is ignored: " + std::string(ignored.instead));
    }
  }
  return {};
}

}  // namespace

cli::parsed<rendezvous_conf> read_rendezvous_conf(std::string_view given, std::string_view text) {
  const auto values = split_pairs(given, text);
  if (!values) return values.error();
  for (const auto& [key, value] : *values) {
    if (const cli::checked wrong_key = check_key(given, key)) return *wrong_key;
  }
  rendezvous_conf conf;
  if (const cli::checked bad = read_torchrun_keys(given, *values, conf)) return *bad;

  const auto timing = read_typed_timers(given, *values);
  if (!timing) return timing.error();
  conf.timing = *timing;
  for (const timer_row& row : timer_table) {
    if (values->contains(row.name)) conf.typed.emplace_back(row.name);
  }
  return conf;
}

}  // namespace ddprun::launcher
