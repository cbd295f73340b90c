#include "launcher/hosts/doctor/cluster_json.hpp"

#include "launcher/base/json_nesting.hpp"
#include "rendezvous/base/printable_text.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <utility>

namespace ddprun::launcher::doctor {
namespace {

using nlohmann::json;

constexpr std::array answer_names = {"ok",      "refused",    "no route", "no answer", "mute",
                                     "stalled", "other node", "stranger", "failed"};

// Host names and system errors may not be UTF-8.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <typename Enum>
Enum enumerator(const json& value, Enum last) {
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(last)) throw std::out_of_range("no such word");
  return static_cast<Enum>(number);
}

json number_or_null(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json();
}

std::optional<std::int64_t> number_of(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<std::int64_t>();
}

json times_of(const std::map<std::uint32_t, std::optional<std::int64_t>>& times) {
  json list = json::array();
  for (const auto& [index, time] : times)
    list.push_back({index, number_or_null(time)});
  return list;
}

std::uint32_t index_of(const json& value, std::size_t nodes) {
  const auto index = value.get<std::uint64_t>();
  if (index >= nodes) throw std::out_of_range("no such node");
  return static_cast<std::uint32_t>(index);
}

std::map<std::uint32_t, std::optional<std::int64_t>> read_times(const json& list,
                                                                std::size_t nodes) {
  std::map<std::uint32_t, std::optional<std::int64_t>> times;
  for (const json& each : list)
    times[index_of(each.at(0), nodes)] = number_of(each.at(1));
  return times;
}

json json_of(const peer_seen& peer) {
  json paths = json::array();
  for (const path_seen& path : peer.paths)
    paths.push_back({path.address, path.port, static_cast<int>(path.what), path.words});
  return {{"paths", std::move(paths)},
          {"round_trip", number_or_null(peer.round_trip)},
          {"clock_ahead", number_or_null(peer.clock_ahead)},
          {"name", {static_cast<int>(peer.name), peer.name_text, peer.name_time}},
          {"named", {static_cast<int>(peer.named), peer.named_text}},
          {"speed", peer.mib_per_second ? json(*peer.mib_per_second) : json()}};
}

peer_seen read_peer(const json& from) {
  peer_seen peer;
  for (const json& path : from.at("paths"))
    peer.paths.push_back({path.at(0).get<std::string>(), path.at(1).get<std::uint16_t>(),
                          enumerator(path.at(2), path_answer::failed),
                          path.at(3).get<std::string>()});
  peer.round_trip = number_of(from.at("round_trip"));
  peer.clock_ahead = number_of(from.at("clock_ahead"));
  peer.name = enumerator(from.at("name").at(0), name_answer::late);
  peer.name_text = from.at("name").at(1).get<std::string>();
  peer.name_time = from.at("name").at(2).get<std::int64_t>();
  peer.named = enumerator(from.at("named").at(0), name_answer::late);
  peer.named_text = from.at("named").at(1).get<std::string>();
  if (!from.at("speed").is_null()) peer.mib_per_second = from.at("speed").get<double>();
  return peer;
}

// Cleans each text and each member name, because they are shown to a person.
void make_printable(json& value) {
  if (value.is_string()) value = in_one_line(value.get<std::string>());
  if (value.is_object()) {
    json made = json::object();
    for (auto& [name, each] : value.items())
      made[in_one_line(name)] = std::move(each);
    value = std::move(made);
  }
  if (value.is_structured()) {
    for (json& each : value)
      make_printable(each);
  }
}

// The only place that checks another node's bytes: malformed ones throw.
template <typename Read>
auto read_or_none(std::string_view text, Read read) -> std::optional<decltype(read(json()))> {
  try {
    json whole = json::parse(text, not_too_nested);
    make_printable(whole);
    return read(whole);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

const char* name_of(path_answer what) {
  return answer_names.at(static_cast<std::size_t>(what));
}

std::string encode(const node_card& card) {
  json addresses = json::array();
  for (const card_address& each : card.addresses)
    addresses.push_back({each.interface, each.address, each.mtu});
  json own = json::array();
  for (const finding& each : card.own)
    own.push_back({each.check, static_cast<int>(each.state), each.seen, each.advice});
  return dumped({{"token", card.token},
                 {"name", card.name},
                 {"nodes", {card.nodes.min, card.nodes.max}},
                 {"host", card.host},
                 {"address", card.address},
                 {"addresses", std::move(addresses)},
                 {"ports", card.ports},
                 {"nccl_interface", card.nccl_interface},
                 {"versions", card.versions},
                 {"own", std::move(own)},
                 {"folder", card.folder},
                 {"bandwidth", card.wants_bandwidth}});
}

std::optional<node_card> decode_card(std::string_view text) {
  return read_or_none(text, [](const json& from) {
    node_card card;
    card.token = from.at("token").get<std::string>();
    card.name = from.at("name").get<std::string>();
    card.nodes = {from.at("nodes").at(0).get<std::uint32_t>(),
                  from.at("nodes").at(1).get<std::uint32_t>()};
    card.host = from.at("host").get<std::string>();
    card.address = from.at("address").get<std::string>();
    for (const json& each : from.at("addresses"))
      card.addresses.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>(),
                                each.at(2).get<std::uint64_t>()});
    card.ports = from.at("ports").get<std::vector<std::uint16_t>>();
    card.nccl_interface = from.at("nccl_interface").get<std::string>();
    card.versions = from.at("versions").get<std::map<std::string, std::string>>();
    for (const json& each : from.at("own"))
      card.own.push_back({each.at(0).get<std::string>(), enumerator(each.at(1), health::error),
                          each.at(2).get<std::string>(), each.at(3).get<std::string>()});
    card.folder = from.at("folder").get<std::string>();
    card.wants_bandwidth = from.at("bandwidth").get<bool>();
    return card;
  });
}

std::string name_on_card(std::string_view text) {
  return read_or_none(text, [](const json& from) { return from.at("name").get<std::string>(); })
      .value_or("");
}

std::string encode(const node_seen& seen) {
  json peers = json::array();
  for (const auto& [index, peer] : seen.peers)
    peers.push_back({index, json_of(peer)});
  json folder;
  if (seen.folder) {
    folder = {{"problem", seen.folder->problem},
              {"kind", seen.folder->kind},
              {"appeared", times_of(seen.folder->appeared)},
              {"changed", times_of(seen.folder->changed)}};
  }
  return dumped({{"peers", std::move(peers)}, {"folder", std::move(folder)}});
}

std::optional<node_seen> decode_seen(std::string_view text, std::size_t nodes) {
  return read_or_none(text, [&](const json& from) {
    node_seen seen;
    for (const json& each : from.at("peers"))
      seen.peers[index_of(each.at(0), nodes)] = read_peer(each.at(1));
    const json& folder = from.at("folder");
    if (folder.is_null()) return seen;
    seen.folder = folder_seen{
        folder.at("problem").get<std::string>(), folder.at("kind").get<std::string>(),
        read_times(folder.at("appeared"), nodes), read_times(folder.at("changed"), nodes)};
    return seen;
  });
}

}  // namespace ddprun::launcher::doctor
