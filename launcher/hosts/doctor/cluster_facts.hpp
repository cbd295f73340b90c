// What the nodes of a doctor's meeting tell each other: first each node's card, then what each has
// seen of the others.
//
// Durations are in whole microseconds; nodes are named by their index in the roster.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/cli/values.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

struct card_address {
  std::string interface;  // "eth0"
  std::string address;    // numeric
  std::uint64_t mtu = 0;  // bytes; 0: unknown
};

struct node_card {
  std::string token;                    // new for each doctor; tells which node answers at a port
  std::string name;                     // its host's name
  cli::node_range nodes;                // --nnodes as typed there
  std::string host;                     // the same for two doctors on one host
  std::string address;                  // by which a job would reach it; numeric
  std::vector<card_address> addresses;  // all that others can reach, that one first
  std::vector<std::uint16_t> ports;     // random ports at which it answers
  std::string nccl_interface;           // that NCCL chooses there; empty: none, or no NCCL
  std::map<std::string, std::string> versions;  // of "ddprun", "PyTorch", ...
  findings own;                                 // what is wrong with this node alone
  std::string folder;                           // --shared as typed there; empty: not given
  bool wants_bandwidth = false;                 // --bandwidth; one node that asks is enough
};

enum class path_answer : std::uint8_t {
  ok,
  refused,     // nothing listens there, or a firewall rejects
  no_route,    // a router or a firewall says that the host is unreachable
  no_answer,   // nothing came back in time
  mute,        // the connection was accepted, and then nothing came
  stalled,     // small packets pass, large ones do not
  other_node,  // another node of this meeting answers at that address
  stranger,    // another program answers
  failed,      // anything else; see `words`
};

// One address and port of another node, as seen from here.
struct path_seen {
  std::string address;
  std::uint16_t port = 0;
  path_answer what = path_answer::ok;
  std::string words;  // the system's error, or the token of the node that answers
};

enum class name_answer : std::uint8_t { not_asked, found, unknown, other, late };

struct peer_seen {
  std::vector<path_seen> paths;
  std::optional<std::int64_t> round_trip;   // the shortest of several
  std::optional<std::int64_t> clock_ahead;  // of the other clock; off by half a round trip at most
  name_answer name = name_answer::not_asked;
  std::string name_text;                       // the addresses that its name resolves to
  name_answer named = name_answer::not_asked;  // of its address; `other`: another name
  std::string named_text;                      // that name
  std::int64_t name_time = 0;                  // how long the look-up took
  std::optional<double> mib_per_second;        // from here to there
};

// What a node has seen of the shared folder.
struct folder_seen {
  std::string problem;  // why it cannot be used here; empty: it can
  std::string kind;     // file system type: "nfs", "ext4"
  // By other node: how long its new file, and then its changed text, took to appear here; empty:
  // longer than the limit.
  std::map<std::uint32_t, std::optional<std::int64_t>> appeared;
  std::map<std::uint32_t, std::optional<std::int64_t>> changed;
};

struct node_seen {
  std::map<std::uint32_t, peer_seen> peers;
  std::optional<folder_seen> folder;
};

// Everything that is known when the nodes part.
struct cluster_facts {
  cli::node_range wanted;  // --nnodes
  std::vector<node_card> cards;
  std::vector<std::optional<node_seen>> seen;  // by index; empty: it had gone before
  std::map<std::uint32_t, std::string> gone;  // why each lost node is gone: "says nothing any more"
  std::string folder;                         // --shared
};

}  // namespace ddprun::launcher::doctor
