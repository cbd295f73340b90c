#include "launcher/cli/rendezvous_conf.hpp"

#include "launcher/cli/option_table.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace ddprun {
namespace {

struct timer_key {
  std::string_view name;
  duration timers::*member;
  bool zero_allowed = false;
};

constexpr std::array timer_keys = {
    timer_key{"node_timeout", &timers::node_timeout},
    timer_key{"heartbeat_interval", &timers::heartbeat_interval},
    timer_key{"reconnect_grace", &timers::reconnect_grace},
    timer_key{"isolation_limit", &timers::isolation_limit},
    timer_key{"stop_grace", &timers::stop_grace},
    timer_key{"drain_grace", &timers::drain_grace},
    timer_key{"kill_wait", &timers::kill_wait},
    timer_key{"start_timeout", &timers::start_timeout},
    timer_key{"join_timeout", &timers::join_timeout},
    timer_key{"last_call_timeout", &timers::last_call_timeout},
    timer_key{"settle", &timers::settle, true},
    timer_key{"settle_max", &timers::settle_max, true},
    timer_key{"recovery_window", &timers::recovery_window},
    timer_key{"linger", &timers::linger},
    timer_key{"orphan_limit", &timers::orphan_limit},
};

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

usage_error wrong(std::string_view given, const std::string& text) {
  return {std::string(given) + ": " + text};
}

parsed<pairs> split_pairs(std::string_view given, std::string_view text) {
  pairs found;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (part.find_first_not_of(' ') == std::string_view::npos) continue;  // a comma too many
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == part.size()) {
      return wrong(given, "'" + std::string(part) + "' is not KEY=VALUE");
    }
    std::string_view key = part.substr(0, equals);
    key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));
    found.insert_or_assign(std::string(key), std::string(part.substr(equals + 1)));
  }
  return found;
}

checked check_key(std::string_view given, const std::string& key) {
  std::vector<std::string_view> known(torchrun_keys.begin(), torchrun_keys.end());
  for (const timer_key& timer : timer_keys)
    known.push_back(timer.name);
  for (const ignored_key& ignored : ignored_keys)
    known.push_back(ignored.name);
  if (std::find(known.begin(), known.end(), key) != known.end()) return {};
  const std::string_view close = nearest(key, known);
  std::string text = "unknown key '" + key + "'";
  if (!close.empty()) text += "; did you mean '" + std::string(close) + "'?";
  return wrong(given, text);
}

// keep_alive_interval x keep_alive_max_attempt, as torchrun understands them.
parsed<duration> read_keep_alive(std::string_view given, const pairs& values) {
  duration interval = std::chrono::seconds(5);
  std::uint32_t attempts = 3;
  if (const auto found = values.find("keep_alive_interval"); found != values.end()) {
    const auto read =
        read_seconds(std::string(given) + ", keep_alive_interval", found->second, false);
    if (!read) return read.error();
    interval = *read;
  }
  if (const auto found = values.find("keep_alive_max_attempt"); found != values.end()) {
    const auto read = read_count(std::string(given) + ", keep_alive_max_attempt", found->second,
                                 "attempts", 1, 1000);
    if (!read) return read.error();
    attempts = *read;
  }
  return interval * attempts;
}

// What would make liveness impossible (rendezvous/DESIGN.md).
checked check_timers(std::string_view given, const timers& timing) {
  const auto text = [](duration value) { return ddprun::to_text(value); };
  if (timing.heartbeat_interval * 3 > timing.node_timeout) {
    return wrong(given, "heartbeat_interval " + text(timing.heartbeat_interval) +
                            " is more than a third of node_timeout " + text(timing.node_timeout));
  }
  if (timing.isolation_limit + timing.heartbeat_interval > timing.node_timeout ||
      timing.isolation_limit < timing.heartbeat_interval * 2) {
    return wrong(given, "isolation_limit " + text(timing.isolation_limit) +
                            " must be from 2 heartbeat_interval to node_timeout - "
                            "heartbeat_interval (" +
                            text(timing.heartbeat_interval * 2) + " to " +
                            text(timing.node_timeout - timing.heartbeat_interval) + ")");
  }
  if (timing.reconnect_grace > timing.node_timeout) {
    return wrong(given, "reconnect_grace " + text(timing.reconnect_grace) +
                            " is longer than node_timeout " + text(timing.node_timeout));
  }
  if (timing.settle > timing.settle_max) {
    return wrong(given, "settle " + text(timing.settle) + " is longer than settle_max " +
                            text(timing.settle_max));
  }
  return {};
}

checked read_torchrun_keys(std::string_view given, const pairs& values, rendezvous_conf& conf) {
  if (const auto found = values.find("is_host"); found != values.end()) {
    conf.is_host = read_truth(found->second);
    if (!conf.is_host) return wrong(given, "is_host is true or false");
  }
  if (const auto found = values.find("store_type"); found != values.end()) {
    if (found->second != "tcp" && found->second != "TCP") {
      return wrong(given, "store_type=" + found->second + " is not there; only tcp is");
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

parsed<rendezvous_conf> read_rendezvous_conf(std::string_view given, std::string_view text) {
  const auto values = split_pairs(given, text);
  if (!values) return values.error();
  for (const auto& [key, value] : *values) {
    if (const checked wrong_key = check_key(given, key)) return *wrong_key;
  }
  rendezvous_conf conf;
  if (const checked bad = read_torchrun_keys(given, *values, conf)) return *bad;

  // node_timeout first: what is not given follows from it.
  if (values->contains("keep_alive_interval") || values->contains("keep_alive_max_attempt")) {
    const auto timeout = read_keep_alive(given, *values);
    if (!timeout) return timeout.error();
    conf.timing = timers_for(*timeout);
  }
  if (const auto found = values->find("node_timeout"); found != values->end()) {
    const auto timeout = read_seconds(std::string(given) + ", node_timeout", found->second, false);
    if (!timeout) return timeout.error();
    conf.timing = timers_for(*timeout);
  }
  for (const timer_key& timer : timer_keys) {
    const auto found = values->find(timer.name);
    if (found == values->end()) continue;
    const auto read = read_seconds(std::string(given) + ", " + std::string(timer.name),
                                   found->second, timer.zero_allowed);
    if (!read) return read.error();
    conf.timing.*timer.member = *read;
  }
  if (values->contains("heartbeat_interval") && !values->contains("isolation_limit")) {
    conf.timing.isolation_limit = conf.timing.node_timeout - 2 * conf.timing.heartbeat_interval;
  }
  if (values->contains("settle") && !values->contains("settle_max")) {
    conf.timing.settle_max = std::max(conf.timing.settle, conf.timing.settle_max);
  }
  if (const checked bad = check_timers(given, conf.timing)) return *bad;
  return conf;
}

}  // namespace ddprun
