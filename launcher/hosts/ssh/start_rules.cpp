#include "launcher/hosts/ssh/start_rules.hpp"

#include "launcher/hosts/ssh/pause.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/signals.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

// Texts of OpenSSH 8 to 9.9. A refused key or password is not one of these, although "Connection
// closed by" may follow it; is_dropped excludes that.
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

// How many more hosts may be connected to.
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
    // With hosts that come and go a host's time begins with its first try.
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
    // A host that has not begun and has no room waits for another's end, not for a moment.
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

using core::leave_reason;

// The codes of those that have ended for such a reason, in order.
template <typename Condition>
std::vector<int> codes_of(const head_end& end, Condition is_one) {
  std::vector<int> codes;
  for (const agent_end& each : end.said) {
    if (is_one(each.why)) codes.push_back(each.code);
  }
  return codes;
}

// The first of the most frequent codes. `codes` is not empty.
int most_frequent(const std::vector<int>& codes) {
  const auto times = [&](int code) { return std::count(codes.begin(), codes.end(), code); };
  return *std::max_element(codes.begin(), codes.end(),
                           [&](int one, int other) { return times(one) < times(other); });
}

}  // namespace

bool is_decided(const head_end& end) {
  return std::any_of(end.said.begin(), end.said.end(),
                     [](const agent_end& each) { return each.why != leave_reason::drained; });
}

// All agents of a run end with the run's code. An agent that was left out, or whose node was
// drained, has a code of its own, which counts only if no agent has the run's. If the run's agents
// disagree, a single 0 decides, else the most frequent code.
int exit_code_of(const head_end& end) {
  if (end.signal) return exit_code_of_signal(*end.signal);
  if (end.failed_start) return *end.failed_start == 0 ? unmet_exit_code : *end.failed_start;
  const std::vector<int> of_run =
      codes_of(end, [](leave_reason why) { return why == leave_reason::run_over; });
  if (std::count(of_run.begin(), of_run.end(), 0) > 0) return 0;
  if (!of_run.empty()) return most_frequent(of_run);
  const std::vector<int> left_out = codes_of(end, [](leave_reason why) {
    return why == leave_reason::refused || why == leave_reason::unmet;
  });
  if (!left_out.empty()) return most_frequent(left_out);
  const std::vector<int> drained = codes_of(end, [](leave_reason) { return true; });
  return drained.empty() ? unmet_exit_code : most_frequent(drained);
}

}  // namespace ddprun::launcher::ssh
