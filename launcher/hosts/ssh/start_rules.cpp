#include "launcher/hosts/ssh/start_rules.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/signals.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::ssh {
namespace {

// OpenSSH 8 to 9.9. What says that a key or a password was refused is not among them, though
// "Connection closed by" may follow it.
constexpr std::array<std::string_view, 5> dropped_words = {
    "kex_exchange_identification:", "ssh_exchange_identification:", "banner exchange:",
    "Connection reset by", "Connection closed by"};
constexpr std::array<std::string_view, 3> refused_words = {
    "Permission denied", "Host key verification failed", "Too many authentication failures"};

bool has_any(std::string_view text, const auto& words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// One of 2^64 for each pair: splitmix64.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

bool is_dropped(std::string_view words) {
  return has_any(words, dropped_words) && !has_any(words, refused_words);
}

start_rules::start_rules(limits values, time_point now)
    : values_(values), deadline_(now + values.start_timeout), hosts_(values.hosts) {}

std::vector<std::size_t> start_rules::take_next(time_point now) {
  std::size_t room = connecting_max - std::min(connecting_max, count(stage::connecting));
  std::vector<std::size_t> next;
  for (std::size_t host = 0; host < hosts_.size() && room > 0; ++host) {
    entry& one = hosts_[host];
    if (one.at != stage::waiting || one.not_before > now || now >= deadline_) continue;
    one.at = stage::connecting;
    next.push_back(host);
    --room;
  }
  return next;
}

std::optional<time_point> start_rules::next_deadline() const {
  std::optional<time_point> first;
  const bool has_room = count(stage::connecting) < connecting_max;
  for (const entry& one : hosts_) {
    if (one.at != stage::waiting && one.at != stage::connecting) continue;
    const bool pauses = one.at == stage::waiting && has_room;
    const time_point at = pauses ? std::min(one.not_before, deadline_) : deadline_;
    if (!first || at < *first) first = at;
  }
  return first;
}

std::vector<std::size_t> start_rules::take_late(time_point now) {
  std::vector<std::size_t> late;
  if (now < deadline_) return late;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    entry& one = hosts_[host];
    if (one.at != stage::waiting && one.at != stage::connecting) continue;
    one.at = stage::failed;
    late.push_back(host);
  }
  return late;
}

void start_rules::agent_runs(std::size_t host) {
  hosts_[host].at = stage::running;
}

bool start_rules::connection_failed(std::size_t host, std::string_view words, time_point now) {
  entry& one = hosts_[host];
  const time_point again = now + pause_of(host);
  if (!is_dropped(words) || again >= deadline_) {
    one.at = stage::failed;
    return false;
  }
  one.at = stage::waiting;
  one.not_before = again;
  ++one.drops;
  return true;
}

// From half of the pause to all of it.
duration start_rules::pause_of(std::size_t host) const {
  const std::uint32_t drops = std::min<std::uint32_t>(hosts_[host].drops, 8);
  const duration whole = std::min<duration>(first_pause * (1U << drops), pause_max);
  const std::uint64_t drawn = mixed(values_.seed ^ mixed(host * 1024 + hosts_[host].drops));
  return whole / 2 + whole / 2 * static_cast<std::int64_t>(drawn % 1000) / 1000;
}

std::size_t start_rules::count(stage of) const {
  return static_cast<std::size_t>(
      std::count_if(hosts_.begin(), hosts_.end(), [of](const entry& one) { return one.at == of; }));
}

namespace {

std::vector<int> said_by_others(const head_end& end) {
  std::vector<int> said = end.said;
  if (end.drained_code != 0) std::erase(said, end.drained_code);
  return said;
}

}  // namespace

bool is_decided(const head_end& end) {
  return !said_by_others(end).empty();
}

// All agents of a run end with the run's code. One that was left out has one of its own, and so has
// one whose node was drained, which counts where there is no other: 0 of any of them is the run's,
// then what most have said.
int exit_code_of(const head_end& end) {
  if (end.signal) return exit_code_of_signal(*end.signal);
  if (end.failed_start) return *end.failed_start == 0 ? unmet_exit_code : *end.failed_start;
  const std::vector<int> others = said_by_others(end);
  const std::vector<int>& said = others.empty() ? end.said : others;
  const auto times = [&](int code) { return std::count(said.begin(), said.end(), code); };
  if (times(0) > 0) return 0;
  int chosen = unmet_exit_code;
  for (const int code : said) {
    if (code == refused_exit_code || code == chosen) continue;
    if (times(chosen) == 0 || times(code) > times(chosen)) chosen = code;
  }
  if (times(chosen) == 0 && !said.empty()) return said.front();
  return chosen;
}

}  // namespace ddprun::launcher::ssh
