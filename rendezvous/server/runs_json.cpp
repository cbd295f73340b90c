#include "rendezvous/server/runs_json.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/protocol/report_fields.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <system_error>
#include <utility>

namespace ddprun::server {
namespace {

using json = nlohmann::ordered_json;

json to_json(const cause& value) {
  json object;
  object["round"] = value.round;
  object["node"] = value.node;
  object["kind"] = to_string(value.kind);
  if (value.rank) object["rank"] = *value.rank;
  if (value.local_rank) object["local_rank"] = *value.local_rank;
  object["code"] = value.code;
  object["text"] = value.text;
  object["tail"] = value.tail;
  return object;
}

json to_json(const round_report& value) {
  json object;
  object["round"] = value.round;
  object["lasted_s"] = static_cast<double>(to_micros(value.lasted)) / 1e6;
  object["nodes"] = value.group_world_size;
  object["world_size"] = value.world_size;
  if (value.root_cause) {
    const cause& first = *value.root_cause;
    json why = to_json(first);
    why["sentence"] = core::describe(first);
    why["is_secondary"] = first.is_secondary;
    why["by_our_stop"] = first.by_our_stop;
    // The run keeps its reports without tails, so an empty one would only mislead.
    why.erase("tail");
    object["root_cause"] = std::move(why);
  }
  protocol::add_outcome(object, value);
  return object;
}

json to_json(const core::member_view& value) {
  json object;
  object["node"] = value.node;
  object["host"] = value.host;
  object["address"] = value.address;
  object["role"] = value.role;
  object["worker_count"] = value.worker_count;
  if (value.group_rank) object["group_rank"] = *value.group_rank;
  if (value.rank_first) object["rank_first"] = *value.rank_first;
  object["phase"] = to_string(value.phase);
  object["connected"] = value.connected;
  object["spare"] = value.spare;
  object["since_heard_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(value.since_heard).count();
  return object;
}

json to_json(const core::run_view& value, std::size_t first) {
  json object;
  object["run_id"] = value.run_id;
  // Always 16 digits: the low half of a session id has as many.
  object["instance"] = to_string(session_id{0, value.instance}).substr(16);
  object["phase"] = to_string(value.phase);
  object["why"] = value.why;
  if (value.stall) {
    json& stall = object["stall"];
    if (value.stall->rank) stall["rank"] = *value.stall->rank;
    stall["for_s"] = static_cast<double>(to_micros(value.stall->stood)) / 1e6;
    stall["text"] = value.stall->text;
  }
  object["round"] = value.round;
  object["restarts_used"] = value.restarts_used;
  object["restarts_forgiven"] = value.restarts_forgiven;
  object["node_losses"] = value.node_losses;
  object["world_size"] = value.world_size;
  object["master_address"] = value.master_address;
  object["master_port"] = value.master_port;
  if (!value.leader_data.bytes.empty()) {
    // The data itself may be a secret (messages.hpp), so only what it is and where it came from is
    // shown.
    json& given = object["leader_data"];
    given["given_by"] = value.leader_node;
    given["about"] = value.leader_data.about;
  }
  if (value.exit_code) object["exit_code"] = *value.exit_code;
  if (value.root_cause) object["root_cause"] = to_json(*value.root_cause);
  if (value.settings) {
    json settings = json::object();
    for (const auto& [name, text] : to_named_values(*value.settings))
      settings[name] = text;
    object["settings"] = std::move(settings);
  }
  object["member_count"] = value.member_count;
  object["offset"] = first;
  json members = json::array();
  for (const core::member_view& member : value.members)
    members.push_back(to_json(member));
  object["members"] = std::move(members);
  const std::size_t shown = first + value.members.size();
  if (shown < value.member_count) {
    object["next"] =
        std::string(runs_path) + "/" + to_url(value.run_id) + "?offset=" + std::to_string(shown);
  }
  return object;
}

std::string text_of(const json& object) {
  // Otherwise dump() would throw at a byte that is not UTF-8, and there would be no page at all.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool is_plain(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

}  // namespace

std::string runs_json(const runs_page& page) {
  json object;
  object["version"] = version;
  object["run_count"] = page.run_count;
  object["offset"] = page.first;
  json list = json::array();
  for (const core::run_view& run : page.runs)
    list.push_back(to_json(run, 0));
  object["runs"] = std::move(list);
  const std::size_t shown = page.first + page.runs.size();
  if (shown < page.run_count) {
    object["next"] = std::string(runs_path) + "?offset=" + std::to_string(shown);
  }
  return text_of(object);
}

std::string run_json(const core::run_view& run, std::size_t first) {
  json object = to_json(run, first);
  json reports = json::array();
  for (const round_report& report : run.reports)
    reports.push_back(to_json(report));
  object["reports"] = std::move(reports);
  return text_of(object);
}

std::string to_url(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string url;
  for (const char byte : text) {
    if (is_plain(byte)) {
      url += byte;
    } else {
      const auto value = static_cast<unsigned char>(byte);
      url += {'%', digits[value >> 4], digits[value & 15]};
    }
  }
  return url;
}

std::string from_url(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    unsigned value = 0;
    const std::string_view digits = text.substr(1, 2);
    // A "%" without two hexadecimal digits stands for itself.
    const bool is_escape =
        text.front() == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr == digits.data() + 2;
    plain += is_escape ? static_cast<char>(value) : text.front();
    text.remove_prefix(is_escape ? 3 : 1);
  }
  return plain;
}

}  // namespace ddprun::server
