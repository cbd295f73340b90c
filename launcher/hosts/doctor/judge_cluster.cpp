#include "launcher/hosts/doctor/judge_cluster.hpp"

#include "launcher/base/text.hpp"
#include "launcher/hosts/doctor/judge_pairs.hpp"
#include "launcher/hosts/doctor/node_names.hpp"
#include "rendezvous/base/counted.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace ddprun::launcher::doctor {
namespace {

using node_set = std::set<std::uint32_t>;

constexpr std::size_t shown_by_name = 8;

std::string every_one(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

void judge_presence(const cluster_facts& facts, const std::vector<std::string>& names,
                    findings& found) {
  node_set all;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node)
    all.insert(all.end(), node);
  const auto [min, max] = facts.wanted;
  const bool is_complete = facts.cards.size() >= min;
  finding made{"nodes",
               is_complete ? health::ok : health::error,
               fmt::format("{} of {} came: {}", facts.cards.size(),
                           min == max ? std::to_string(max) : fmt::format("{} to {}", min, max),
                           names.size() <= shown_by_name ? every_one(names) : list_of(all, names)),
               {}};
  if (!is_complete)
    made.advice =
        counted(min - facts.cards.size(), "node") +
        " did not: start the same command there, and see what it says; --wait is how long "
        "the others wait";
  found.push_back(made);
  for (const auto& [node, why] : facts.gone)
    found.push_back(
        {"nodes", health::error, names[node] + " came, and " + why,
         "see what happened there; the other nodes' findings about it are still shown"});
}

// Finds two doctors on one host, and two hosts with one address.
void judge_identities(const cluster_facts& facts, const std::vector<std::string>& names,
                      findings& found) {
  std::map<std::string, node_set> hosts;
  std::map<std::string, node_set> addresses;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node) {
    hosts[facts.cards[node].host].insert(node);
    addresses[facts.cards[node].address].insert(node);
  }
  for (const auto& [host, nodes] : hosts) {
    if (nodes.size() > 1)
      found.push_back({"hosts", health::warning, list_of(nodes, names) + " are one host",
                       "start one on each node"});
  }
  for (const auto& [address, nodes] : addresses) {
    node_set different;
    std::set<std::string> seen;
    for (const std::uint32_t node : nodes) {
      if (seen.insert(facts.cards[node].host).second) different.insert(node);
    }
    if (different.size() > 1)
      found.push_back({"addresses", health::error,
                       list_of(different, names) + " both have " + address,
                       "give each host its own, or choose another network with --network"});
  }
}

// Reads "2.31.1"; "unknown" is never enough.
bool is_at_least(const std::string& version, unsigned major, unsigned minor) {
  const std::vector<std::string_view> parts = split(version, '.');
  if (parts.size() < 2) return false;
  return std::tuple(leading_number<unsigned>(parts[0]).value_or(0),
                    leading_number<unsigned>(parts[1]).value_or(0)) >= std::tuple(major, minor);
}

// Points to what only NCCL can see, once its communicators exist.
void name_nccl_diagnostics(const std::string& version, findings& found) {
  if (!is_at_least(version, 2, 31)) return;
  found.push_back({"NCCL diagnostics", health::ok,
                   "NCCL " + version + " has its own, of GPUs and the links between them",
                   "start a job once with NCCL_RUN_DIAGNOSTICS=1 and NCCL_RUN_RAS_DIAGNOSTICS=1, "
                   "and look for \"NCCL DIAG\" in its output"});
}

void judge_versions(const cluster_facts& facts, const std::vector<std::string>& names,
                    findings& found) {
  std::map<std::string, std::map<std::string, node_set>> versions;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node) {
    for (const auto& [what, version] : facts.cards[node].versions)
      versions[what][version].insert(node);
  }
  std::string same;
  for (const auto& [what, by_version] : versions) {
    if (by_version.size() == 1) {
      const auto& [version, nodes] = *by_version.begin();
      if (!version.empty()) same += (same.empty() ? "" : ", ") + what + " " + version;
      if (what == "NCCL") name_nccl_diagnostics(version, found);
      continue;
    }
    std::string shown;
    for (const auto& [version, nodes] : by_version)
      shown += (shown.empty() ? "" : ", ") + (version.empty() ? "none" : version) + " on " +
               list_of(nodes, names);
    // NCCL refuses to work with another version; the other packages mostly work.
    found.push_back({what + " versions", what == "NCCL" ? health::error : health::warning, shown,
                     "install the same on all nodes"});
  }
  if (!same.empty()) found.push_back({"versions", health::ok, "the same on all: " + same, ""});
}

std::string rounded_seconds(std::int64_t micros) {
  return fmt::format("{:.2g} s", static_cast<double>(micros) / 1'000'000);
}

struct folder_times {
  std::size_t pairs = 0;
  std::size_t late = 0;
  std::int64_t longest = 0;
};

folder_times add_up(const cluster_facts& facts,
                    std::map<std::uint32_t, std::optional<std::int64_t>> folder_seen::*what,
                    node_set* blind = nullptr) {
  folder_times times;
  for (std::uint32_t node = 0; node < facts.seen.size(); ++node) {
    if (!facts.seen[node] || !facts.seen[node]->folder) continue;
    const auto& here = (*facts.seen[node]->folder).*what;
    std::size_t late = 0;
    for (const auto& [other, time] : here) {
      if (facts.gone.contains(other)) continue;
      ++times.pairs;
      late += time ? 0 : 1;
      times.longest = std::max(times.longest, time.value_or(0));
    }
    times.late += late;
    if (blind != nullptr && late > 0 && late == here.size()) blind->insert(node);
  }
  return times;
}

void judge_folder(const cluster_facts& facts, const std::vector<std::string>& names,
                  findings& found) {
  if (facts.folder.empty()) return;
  std::map<std::string, node_set> problems;
  std::set<std::string> kinds;
  for (std::uint32_t node = 0; node < facts.seen.size(); ++node) {
    if (!facts.seen[node] || !facts.seen[node]->folder) continue;
    const folder_seen& here = *facts.seen[node]->folder;
    if (!here.problem.empty()) problems[here.problem].insert(node);
    if (!here.kind.empty()) kinds.insert(here.kind);
  }
  for (const auto& [problem, nodes] : problems)
    found.push_back({"shared folder", health::error, problem + " on " + list_of(nodes, names),
                     "mount it there, let this user write, and see that its file server answers"});
  node_set blind;
  const folder_times appeared = add_up(facts, &folder_seen::appeared, &blind);
  const folder_times changed = add_up(facts, &folder_seen::changed);
  if (appeared.pairs == 0) return;
  finding made{"shared folder", health::ok, facts.folder + " (", {}};
  for (const std::string& kind : kinds)
    made.seen += (kind == *kinds.begin() ? "" : ", ") + kind;
  made.seen += ")";
  if (appeared.late > 0) {
    made.state = health::error;
    made.seen += blind.empty() ? fmt::format(": {} of {} pairs do not see each other's files",
                                             appeared.late, appeared.pairs)
                               : ": " + list_of(blind, names) + " saw none of the others' files";
    made.advice = problems.empty() ? "it is not one folder, or it caches for longer than 10 s: is "
                                     "it mounted on each node?"
                                   : "if a node cannot write there, no other node can see its file";
  } else {
    made.seen += " is one folder: new files are seen after " + rounded_seconds(appeared.longest) +
                 ", changes after " + rounded_seconds(changed.longest);
    if (changed.late > 0) {
      made.state = health::warning;
      made.seen += fmt::format("; {} of {} saw no change within 10 s", changed.late, changed.pairs);
      made.advice =
          "it caches: mount it with actimeo=1 or lookupcache=none, or write new files "
          "in place of changed ones";
    }
  }
  found.push_back(made);
}

// What each node has found wrong with itself; the same finding of several nodes is shown once.
void judge_own(const cluster_facts& facts, const std::vector<std::string>& names, findings& found) {
  std::map<std::tuple<int, std::string, std::string, std::string>, node_set> all;
  for (std::uint32_t node = 0; node < facts.cards.size(); ++node) {
    for (const finding& each : facts.cards[node].own)
      all[{-static_cast<int>(each.state), each.check, each.seen, each.advice}].insert(node);
  }
  for (const auto& [what, nodes] : all) {
    const auto& [state, check, seen, advice] = what;
    found.push_back(
        {check, static_cast<health>(-state), list_of(nodes, names) + ": " + seen, advice});
  }
}

}  // namespace

findings judge_cluster(const cluster_facts& facts) {
  const std::vector<std::string> names = node_names(facts.cards);
  findings found;
  judge_presence(facts, names, found);
  judge_identities(facts, names, found);
  for (const auto judge : {judge_reach, judge_nccl_interfaces, judge_names, judge_addresses,
                           judge_speed, judge_clocks}) {
    findings more = judge(facts);
    std::move(more.begin(), more.end(), std::back_inserter(found));
  }
  judge_versions(facts, names, found);
  judge_folder(facts, names, found);
  judge_own(facts, names, found);
  return found;
}

}  // namespace ddprun::launcher::doctor
