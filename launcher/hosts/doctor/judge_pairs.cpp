#include "launcher/hosts/doctor/judge_pairs.hpp"

#include "launcher/hosts/doctor/node_names.hpp"
#include "rendezvous/base/counted.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace ddprun::launcher::doctor {
namespace {

constexpr std::int64_t slow_round_trip = 5000;     // us; within one site it is far less
constexpr std::int64_t clock_tolerance = 100'000;  // us
constexpr std::int64_t slow_look_up = 1'000'000;   // us
constexpr std::size_t slowest_shown = 3;
constexpr double slow_share = 0.5;  // of the median

// A value measured between two nodes.
struct measured {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  double value = 0;
};

template <typename Value>
std::vector<measured> all_of(const cluster_facts& facts, Value value) {
  std::vector<measured> all;
  for (std::uint32_t from = 0; from < facts.seen.size(); ++from) {
    if (!facts.seen[from]) continue;
    for (const auto& [to, peer] : facts.seen[from]->peers) {
      if (const auto here = value(peer)) all.push_back({from, to, static_cast<double>(*here)});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const measured& one, const measured& two) { return one.value < two.value; });
  return all;
}

std::string pair_text(const measured& pair, const std::vector<std::string>& names) {
  return names[pair.from] + " -> " + names[pair.to];
}

std::string time_text(double micros) {
  if (micros < 1000) return fmt::format("{:.0f} us", micros);
  if (micros < 1'000'000) return fmt::format("{:.1f} ms", micros / 1000);
  return fmt::format("{:.1f} s", micros / 1'000'000);
}

finding judge_bandwidth(const std::vector<measured>& speeds,
                        const std::vector<std::string>& names) {
  const double median = speeds[speeds.size() / 2].value;
  finding made{"bandwidth",
               health::ok,
               fmt::format("{:.0f} to {:.0f} MiB/s, in the middle {:.0f}; the slowest: ",
                           speeds.front().value, speeds.back().value, median),
               {}};
  for (std::size_t at = 0; at < std::min(slowest_shown, speeds.size()); ++at)
    made.seen += fmt::format("{}{} {:.0f}", at == 0 ? "" : ", ", pair_text(speeds[at], names),
                             speeds[at].value);
  if (speeds.front().value >= median * slow_share) return made;
  made.state = health::warning;
  made.advice =
      "a job is as fast as its slowest pair: look for a bad cable, a link that has fallen back to "
      "a lower speed (ethtool), or traffic of others";
  return made;
}

}  // namespace

findings judge_speed(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  findings found;
  const auto trips = all_of(facts, [](const peer_seen& peer) { return peer.round_trip; });
  if (!trips.empty()) {
    const double median = trips[trips.size() / 2].value;
    const measured& worst = trips.back();
    finding made{"round trip",
                 health::ok,
                 time_text(trips.front().value) + " to " + time_text(worst.value),
                 {}};
    if (worst.value > slow_round_trip && worst.value > 10 * median) {
      made.state = health::warning;
      made.seen +=
          ", in the middle " + time_text(median) + "; the longest: " + pair_text(worst, names);
      made.advice = "is that node in another building, or its link overloaded?";
    } else if (median > slow_round_trip) {
      made.state = health::warning;
      made.advice =
          "nodes of one job are usually within 1 ms of each other: training in step "
          "waits for each round trip";
    }
    found.push_back(made);
  }
  const auto speeds = all_of(facts, [](const peer_seen& peer) { return peer.mib_per_second; });
  if (!speeds.empty()) found.push_back(judge_bandwidth(speeds, names));
  return found;
}

findings judge_clocks(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  auto ahead = all_of(facts, [](const peer_seen& peer) { return peer.clock_ahead; });
  if (ahead.empty()) return {};
  // Such a measurement may be off by half a round trip.
  const auto trips = all_of(facts, [](const peer_seen& peer) { return peer.round_trip; });
  const double doubt = trips.empty() ? 0 : trips.back().value / 2;
  double worst = 0;
  for (const measured& each : ahead)
    worst = std::max(worst, std::abs(each.value));
  if (worst <= clock_tolerance + doubt)
    return {{"clocks", health::ok, "within " + time_text(std::max(worst, doubt)), ""}};
  // For each node, the median of what others say: a node whose clock is wrong is wrong for most
  // others.
  std::map<std::uint32_t, std::vector<double>> of_node;
  for (const measured& each : ahead)
    of_node[each.to].push_back(each.value);
  findings found;
  for (const auto& [node, values] : of_node) {
    const double middle = values[values.size() / 2];  // they are sorted
    if (std::abs(middle) <= clock_tolerance + doubt) continue;
    if (values.size() == 1 && middle < 0) continue;  // of two nodes, name one
    found.push_back({"clocks", health::warning,
                     names[node] + " is " + time_text(std::abs(middle)) +
                         (middle > 0 ? " ahead of" : " behind") +
                         (values.size() > 1 ? " the others" : " the other"),
                     "time stamps of the nodes cannot be compared, and tickets may be refused: run "
                     "chrony or systemd-timesyncd on all"});
  }
  return found;
}

findings judge_names(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  using problem = std::pair<std::uint32_t, std::string>;  // whose name, and what is wrong with it
  std::map<problem, std::set<std::uint32_t>> problems;
  std::size_t asked = 0;
  std::size_t good = 0;
  std::int64_t longest = 0;
  for (std::uint32_t from = 0; from < facts.seen.size(); ++from) {
    if (!facts.seen[from]) continue;
    for (const auto& [to, peer] : facts.seen[from]->peers) {
      if (peer.name == name_answer::not_asked) continue;
      ++asked;
      longest = std::max(longest, peer.name_time);
      if (peer.name == name_answer::found) ++good;
      if (peer.name == name_answer::unknown) problems[{to, "is not known"}].insert(from);
      if (peer.name == name_answer::late) problems[{to, "has no answer"}].insert(from);
      if (peer.name == name_answer::other)
        problems[{to, "is " + peer.name_text + ", not its own address,"}].insert(from);
    }
  }
  if (asked == 0) return {};
  findings found;
  if (problems.empty() && longest > slow_look_up) {
    found.push_back(
        {"names of nodes", health::warning,
         "every node finds all names, after up to " + time_text(static_cast<double>(longest)),
         "a name service is slow: put the nodes into /etc/hosts"});
  } else {
    found.push_back({"names of nodes", problems.empty() ? health::ok : health::warning,
                     fmt::format("{} of {} look-ups find the node", good, asked),
                     problems.empty()
                         ? ""
                         : "jobs of ddprun run without, as it passes addresses; "
                           "programs that pass names do not: put the nodes into DNS or "
                           "/etc/hosts"});
  }
  constexpr std::size_t lines_max = 5;
  for (const auto& [what, nodes] : problems) {
    if (found.size() > lines_max) break;
    found.push_back(
        {"names of nodes", health::warning,
         facts.cards[what.first].name + " " + what.second + " on " + list_of(nodes, names), ""});
  }
  return found;
}

findings judge_addresses(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  using problem = std::pair<std::uint32_t, std::string>;  // whose address, and its trouble
  std::map<problem, std::set<std::uint32_t>> problems;
  std::size_t asked = 0;
  std::size_t good = 0;
  for (std::uint32_t from = 0; from < facts.seen.size(); ++from) {
    if (!facts.seen[from]) continue;
    for (const auto& [to, peer] : facts.seen[from]->peers) {
      if (peer.named == name_answer::not_asked) continue;
      ++asked;
      if (peer.named == name_answer::found) ++good;
      if (peer.named == name_answer::late) problems[{to, "has no answer"}].insert(from);
      if (peer.named == name_answer::other) problems[{to, "is " + peer.named_text}].insert(from);
    }
  }
  if (asked == 0) return {};
  // Addresses without any name are common in clouds and pods and do little harm.
  findings found = {{"addresses of nodes", problems.empty() ? health::ok : health::warning,
                     fmt::format("{} of {} look-ups lead back to the node's name", good, asked),
                     problems.empty() ? ""
                                      : "ssh logins get slow, and Kerberos and host keys see "
                                        "another host: correct the reverse zone, or /etc/hosts"}};
  constexpr std::size_t lines_max = 5;
  for (const auto& [what, nodes] : problems) {
    if (found.size() > lines_max) break;
    const node_card& card = facts.cards[what.first];
    found.push_back(
        {"addresses of nodes", health::warning,
         card.address + " of " + card.name + " " + what.second + " on " + list_of(nodes, names),
         ""});
  }
  return found;
}

}  // namespace ddprun::launcher::doctor
