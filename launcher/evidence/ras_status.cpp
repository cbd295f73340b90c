#include "launcher/evidence/ras_status.hpp"

#include "launcher/base/json_nesting.hpp"
#include "launcher/base/text.hpp"
#include "rendezvous/base/printable_text.hpp"
#include "rendezvous/base/utf8.hpp"
#include "worker/blocking_stream.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

using nlohmann::json;

constexpr std::size_t status_bytes_max = 16 * 1024 * 1024;
constexpr std::size_t answer_line_max = 256;
constexpr std::size_t ranks_named_max = 4;

std::uint64_t number_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

using counts = std::map<std::string, std::uint64_t>;  // by collective

counts counts_of(const json& rank) {
  counts found;
  const auto all = rank.find("collective_counts");
  if (all == rank.end() || !all->is_object()) return found;
  for (const auto& [name, count] : all->items()) {
    if (count.is_number_unsigned() && name.size() < 40) found[name] = count.get<std::uint64_t>();
  }
  return found;
}

std::string sentence_of_one(const json& communicator) {
  const auto ranks = communicator.find("ranks");
  if (ranks == communicator.end() || !ranks->is_array()) return {};
  counts most;
  for (const json& rank : *ranks) {
    if (!rank.is_object()) return {};
    for (const auto& [name, count] : counts_of(rank))
      most[name] = std::max(most[name], count);
  }
  std::string behind;
  std::size_t count_behind = 0;
  std::string how;
  for (const json& rank : *ranks) {
    const counts own = counts_of(rank);
    const auto lagging = std::find_if(most.begin(), most.end(), [&](const auto& each) {
      const auto found = own.find(each.first);
      return found == own.end() || found->second < each.second;
    });
    // A rank without counts has not reported, which does not make it late.
    if (lagging == most.end() || own.empty()) continue;
    if (++count_behind > ranks_named_max) continue;
    behind += (behind.empty() ? "" : ", ") + std::to_string(number_at(rank, "rank"));
    if (how.empty()) {
      const auto found = own.find(lagging->first);
      how = lagging->first + " " + std::to_string(found == own.end() ? 0 : found->second) +
            ", others " + std::to_string(lagging->second);
    }
  }
  // If half of the ranks differ, none of them can be called late.
  if (count_behind == 0 || 2 * count_behind >= ranks->size()) return {};
  if (count_behind > ranks_named_max)
    behind += " and " + std::to_string(count_behind - ranks_named_max) + " more";
  return (count_behind == 1 ? "rank " : "ranks ") + behind + " of " +
         std::to_string(ranks->size()) + (count_behind == 1 ? " is" : " are") +
         " behind in NCCL (" + how + ")";
}

// Empty: the status has no communicators.
std::vector<json> communicators_of(std::string_view status) {
  const json read = json::parse(status, not_too_nested, false);
  if (!read.is_object()) return {};
  const auto found = read.find("communicators");
  if (found == read.end() || !found->is_array()) return {};
  return {found->begin(), found->end()};
}

// Empty: this is no communicator, or counts of a rank are missing.
std::vector<json> ranks_of(const json& communicator) {
  if (!communicator.is_object()) return {};
  const auto ranks = communicator.find("ranks");
  if (ranks == communicator.end() || !ranks->is_array()) return {};
  std::vector<json> found(ranks->begin(), ranks->end());
  for (const json& one : found) {
    if (!one.is_object() || counts_of(one).empty()) return {};
  }
  return found;
}

struct lags {
  std::map<std::uint64_t, std::string> behind;  // by process
  std::set<std::uint64_t> ahead;
};

// Adds the processes that have launched fewer, or more, collectives than another.
void compare(const std::vector<json>& ranks, lags& found) {
  counts least;
  counts most;
  for (const json& rank : ranks) {
    for (const auto& [name, count] : counts_of(rank)) {
      const auto [low, is_first] = least.try_emplace(name, count);
      if (!is_first) low->second = std::min(low->second, count);
      most[name] = std::max(most[name], count);
    }
  }
  for (const json& rank : ranks) {
    const std::uint64_t pid = number_at(rank, "pid");
    for (const auto& [name, count] : counts_of(rank)) {
      if (count > least[name]) found.ahead.insert(pid);
      if (count == most[name]) continue;
      found.behind.try_emplace(
          pid, name + " " + std::to_string(count) + ", others " + std::to_string(most[name]));
    }
  }
}

// Reads a line of the answer; none: none came in time.
std::optional<std::string> answer_line(worker::blocking_stream& stream, std::string& received,
                                       const worker::deadline& until) {
  while (true) {
    const std::size_t end = received.find('\n');
    if (end != std::string::npos) {
      std::string line = received.substr(0, end);
      received.erase(0, end + 1);
      return line;
    }
    if (received.size() > answer_line_max) return std::nullopt;
    if (stream.receive(received, answer_line_max, until)) return std::nullopt;
  }
}

}  // namespace

ras_place ras_place_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  const auto port = whole_number<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!port || host.empty()) return {};
  return {std::string(host), *port};
}

std::string ask_ras(const ras_place& where, duration limit) {
  const worker::deadline until = limit;
  std::string problem;
  auto stream =
      worker::blocking_stream::dial(where.host, where.port, duration::zero(), until, problem);
  if (!stream) return {};
  std::string received;
  const auto ask = [&](std::string_view question) -> std::optional<std::string> {
    if (stream->send(std::string(question) + "\n", until)) return std::nullopt;
    return answer_line(*stream, received, until);
  };
  const auto greeting = ask("CLIENT PROTOCOL 2");
  if (!greeting || !greeting->starts_with("SERVER PROTOCOL")) return {};
  if (!ask("TIMEOUT 1") || !ask("SET FORMAT json")) return {};
  if (stream->send("VERBOSE STATUS\n", until)) return {};
  while (received.size() < status_bytes_max &&
         !stream->receive(received, status_bytes_max - received.size(), until)) {
  }
  return in_lines(to_valid_utf8(received));
}

std::string ras_sentence(std::string_view status) {
  const json read = json::parse(status, nullptr, false);
  if (!read.is_object()) return {};
  const auto communicators = read.find("communicators");
  if (communicators == read.end() || !communicators->is_array()) return {};
  for (const json& one : *communicators) {
    if (!one.is_object()) continue;
    if (std::string found = sentence_of_one(one); !found.empty()) return found;
  }
  return {};
}

std::string ras_counts(std::string_view status) {
  std::string text;
  for (const json& one : communicators_of(status)) {
    const std::vector<json> ranks = ranks_of(one);
    if (ranks.empty()) return {};
    text += one.value("hash", json()).dump() + one.value("secondary_hash", json()).dump();
    for (const json& rank : ranks) {
      text += " " + std::to_string(number_at(rank, "rank"));
      for (const auto& [name, count] : counts_of(rank))
        text += ":" + std::to_string(count);
    }
    text += "\n";
  }
  return text;
}

bool has_lags(std::string_view status) {
  lags found;
  for (const json& one : communicators_of(status))
    compare(ranks_of(one), found);
  return !found.behind.empty();
}

std::optional<ras_lag> sole_lag(std::string_view status) {
  lags found;
  std::map<std::uint64_t, std::set<std::string>> hosts;  // by PID
  for (const json& one : communicators_of(status)) {
    const std::vector<json> ranks = ranks_of(one);
    compare(ranks, found);
    for (const json& rank : ranks)
      hosts[number_at(rank, "pid")].insert(rank.value("host", json()).dump());
  }
  if (found.behind.size() != 1) return std::nullopt;
  const auto& [pid, words] = *found.behind.begin();
  if (pid == 0 || found.ahead.contains(pid) || hosts[pid].size() != 1) return std::nullopt;
  return ras_lag{static_cast<pid_t>(pid), words};
}

}  // namespace ddprun::launcher::evidence
