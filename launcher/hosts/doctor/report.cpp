#include "launcher/hosts/doctor/report.hpp"

#include "launcher/hosts/doctor/cluster_json.hpp"
#include "launcher/hosts/doctor/pairs_table.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/version.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ddprun::launcher::doctor {
namespace {

const char* word_of(health state) {
  switch (state) {
    case health::ok:
      return "ok";
    case health::warning:
      return "warning";
    case health::error:
      return "error";
  }
  return "";
}

std::size_t count_of(const findings& found, health state) {
  return static_cast<std::size_t>(std::count_if(
      found.begin(), found.end(), [&](const finding& each) { return each.state == state; }));
}

nlohmann::ordered_json json_of_finding(const finding& each) {
  nlohmann::ordered_json one = {
      {"check", each.check}, {"state", word_of(each.state)}, {"seen", each.seen}};
  if (!each.advice.empty()) one["advice"] = each.advice;
  return one;
}

void add_nodes(nlohmann::ordered_json& object, const cluster_facts& facts) {
  object["nodes"] = nlohmann::ordered_json::array();
  for (const node_card& card : facts.cards)
    object["nodes"].push_back({{"name", card.name}, {"address", card.address}});
}

void add_pairs(nlohmann::ordered_json& object, const cluster_facts& facts) {
  object["pairs"] = nlohmann::ordered_json::array();
  for (std::uint32_t from = 0; from < facts.seen.size(); ++from) {
    if (!facts.seen[from]) continue;
    for (const auto& [to, seen] : facts.seen[from]->peers) {
      nlohmann::ordered_json pair = {{"from", from}, {"to", to}};
      if (seen.round_trip) pair["round_trip_us"] = *seen.round_trip;
      if (seen.clock_ahead) pair["clock_ahead_us"] = *seen.clock_ahead;
      if (seen.mib_per_second) pair["mib_per_s"] = *seen.mib_per_second;
      pair["paths"] = nlohmann::ordered_json::array();
      for (const path_seen& path : seen.paths) {
        nlohmann::ordered_json one = {
            {"address", path.address}, {"port", path.port}, {"state", name_of(path.what)}};
        if (!path.words.empty()) one["words"] = path.words;
        pair["paths"].push_back(std::move(one));
      }
      object["pairs"].push_back(std::move(pair));
    }
  }
}

}  // namespace

std::string to_text(const findings& found) {
  std::size_t width = 0;
  for (const finding& each : found)
    width = std::max(width, each.check.size());
  std::string text;
  for (const finding& each : found) {
    text += fmt::format("{:<8} {:<{}}  {}\n", word_of(each.state), each.check, width, each.seen);
    if (!each.advice.empty())
      text += fmt::format("{:<8} {:<{}}  > {}\n", "", "", width, each.advice);
  }
  return text + fmt::format("{} ok, {}, {}\n", count_of(found, health::ok),
                            counted(count_of(found, health::warning), "warning"),
                            counted(count_of(found, health::error), "error"));
}

std::string to_text(const cluster_report& all) {
  const std::string table = pairs_table(all.facts);
  return "all nodes:\n" + to_text(all.found) + (table.empty() ? "" : "\n" + table);
}

std::string to_json(const findings& found, const std::string& node, const cluster_report* all) {
  nlohmann::ordered_json object = {{"node", node}, {"version", version}};
  object["findings"] = nlohmann::ordered_json::array();
  for (const finding& each : found)
    object["findings"].push_back(json_of_finding(each));
  findings counted_ones = found;
  if (all != nullptr) {
    for (const finding& each : all->found) {
      object["findings"].push_back(json_of_finding(each));
      object["findings"].back()["scope"] = "nodes";
      counted_ones.push_back(each);
    }
    add_nodes(object, all->facts);
    add_pairs(object, all->facts);
  }
  object["ok"] = count_of(counted_ones, health::ok);
  object["warnings"] = count_of(counted_ones, health::warning);
  object["errors"] = count_of(counted_ones, health::error);
  // Bytes that are not UTF-8 (a name in a file system) become U+FFFD.
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int exit_code_of(const findings& found) {
  return count_of(found, health::error) > 0 ? failed_exit_code : 0;
}

}  // namespace ddprun::launcher::doctor
