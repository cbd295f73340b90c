// Meetings of nodes, as input for the doctor's judges.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "tests/launcher/hosts/doctor/doctor_support.hpp"

#include <string>

namespace ddprun::tests::doctor {

// `nodes` healthy nodes: "node-0" at 10.0.0.1, and so on.
inline cluster_facts healthy(std::uint32_t nodes) {
  cluster_facts facts;
  facts.wanted = {nodes, nodes};
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::string number = std::to_string(node);
    const std::string address = "10.0.0." + std::to_string(node + 1);
    node_card card;
    card.token = std::string(32, static_cast<char>('a' + node % 6));
    card.name = "node-" + number;
    card.host = "host " + number;
    card.address = address;
    card.addresses = {{"eth0", address, 1500}};
    card.ports = {40000, 40001, 40002};
    card.versions = {{"ddprun", "0.1.0"}, {"NCCL", "2.30.7"}, {"PyTorch", "2.15.0"}};
    facts.cards.push_back(card);
  }
  for (std::uint32_t from = 0; from < nodes; ++from) {
    node_seen seen;
    for (std::uint32_t to = 0; to < nodes; ++to) {
      if (from == to) continue;
      peer_seen peer;
      for (const std::uint16_t port : facts.cards[to].ports)
        peer.paths.push_back({facts.cards[to].address, port, path_answer::ok, ""});
      peer.round_trip = 100;
      peer.clock_ahead = 20;
      peer.name = name_answer::found;
      peer.named = name_answer::found;
      seen.peers[to] = peer;
    }
    facts.seen.push_back(seen);
  }
  return facts;
}

// What one node has seen of another.
inline peer_seen& pair(cluster_facts& facts, std::uint32_t from, std::uint32_t to) {
  return facts.seen[from]->peers[to];
}

inline void set_answers(peer_seen& seen, path_answer what, const std::string& words,
                        std::size_t from = 0) {
  for (std::size_t at = from; at < seen.paths.size(); ++at) {
    seen.paths[at].what = what;
    seen.paths[at].words = words;
  }
}

// The n-th finding of that name that is not ok.
inline std::string trouble_of(const findings& found, const std::string& check,
                              std::size_t number = 0) {
  for (const finding& each : found) {
    if (each.check != check || each.state == health::ok || number-- > 0) continue;
    return (each.state == health::error ? "error: " : "warning: ") + each.seen;
  }
  return "nothing";
}

}  // namespace ddprun::tests::doctor
