#include "launcher/hosts/ssh/start_rules.hpp"

#include "launcher/hosts/ssh/pause.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/signals.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

}  // namespace

bool is_dropped(std::string_view words) {
  return has_any(words, dropped_words) && !is_refused(words);
}

bool is_refused(std::string_view words) {
  return has_any(words, refused_words);
}

start_rules::start_rules(limits values, time_point now) : values_(values), hosts_(values.hosts) {
  for (entry& one : hosts_)
    one.deadline = now + values.start_timeout;
}

// How many may be connected to beside those that are.
std::size_t start_rules::room() const {
  const std::size_t connecting = count(stage::connecting);
  const std::size_t most = std::min(
      connecting_max,
      is_open() ? values_.hosts_at_once - std::min(values_.hosts_at_once, count(stage::running))
                : connecting_max);
  return most - std::min(most, connecting);
}

std::vector<std::size_t> start_rules::take_next(time_point now) {
  std::size_t left = room();
  std::vector<std::size_t> next;
  for (std::size_t host = 0; host < hosts_.size() && left > 0; ++host) {
    entry& one = hosts_[host];
    if (one.at != stage::waiting || one.not_before > now) continue;
    if (is_open() && one.drops == 0) one.deadline = now + values_.start_timeout;
    if (now >= one.deadline) continue;
    one.at = stage::connecting;
    next.push_back(host);
    --left;
  }
  return next;
}

std::optional<time_point> start_rules::next_deadline() const {
  std::optional<time_point> first;
  const bool has_room = room() > 0;
  for (const entry& one : hosts_) {
    if (one.at != stage::waiting && one.at != stage::connecting) continue;
    const bool waits = one.at == stage::waiting;
    const bool has_begun = !is_open() || !waits || one.drops > 0;
    if (!has_begun && !has_room) continue;
    time_point at = has_begun ? one.deadline : one.not_before;
    if (waits && has_room) at = std::min(at, one.not_before);
    if (!first || at < *first) first = at;
  }
  return first;
}

std::vector<std::size_t> start_rules::take_late(time_point now) {
  std::vector<std::size_t> late;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    entry& one = hosts_[host];
    if (one.at != stage::waiting && one.at != stage::connecting) continue;
    const bool has_begun = !is_open() || one.at == stage::connecting || one.drops > 0;
    if (!has_begun || now < one.deadline) continue;
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
  const time_point again = now + pause_after(one.drops, first_pause, pause_max, values_.seed, host);
  if (!is_dropped(words) || again >= one.deadline) {
    one.at = stage::failed;
    return false;
  }
  one.at = stage::waiting;
  one.not_before = again;
  ++one.drops;
  return true;
}

void start_rules::add() {
  hosts_.push_back({stage::failed, {}, {}, 0});
}

void start_rules::admit(std::size_t host, time_point not_before) {
  hosts_[host] = {stage::waiting, not_before, {}, 0};
}

void start_rules::close() {
  if (!std::exchange(values_.is_open, false)) return;
  for (entry& one : hosts_) {
    if (one.at == stage::waiting) one.at = stage::failed;
  }
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
