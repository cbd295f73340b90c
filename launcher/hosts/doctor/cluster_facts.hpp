// What the nodes of a doctor's meeting tell each other: each one's card, then what each has seen of
// the others.
//
// Durations in whole microseconds; nodes by their index in the roster.
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
  std::uint64_t mtu = 0;  // bytes; 0: not known
};

struct node_card {
  std::string token;                    // drawn anew for each doctor; tells who answers at a port
  std::string name;                     // what its host is called
  cli::node_range nodes;                // --nnodes as it was typed there
  std::string host;                     // the same for two doctors of one host
  std::string address;                  // by which a job would reach it; numeric
  std::vector<card_address> addresses;  // all that others may reach, that one first
  std::vector<std::uint16_t> ports;     // random ones, at which it answers
  std::string nccl_interface;           // that NCCL takes there; empty: none, or no NCCL
  std::map<std::string, std::string> versions;  // of "ddprun", "PyTorch", ...
  findings own;                                 // what is wrong with it alone
  std::string folder;                           // --shared as it was typed there; empty: it was not
  bool wants_bandwidth = false;                 // --bandwidth; one is enough for all
};

enum class path_answer : std::uint8_t {
  ok,
  refused,     // nothing listens there, or a firewall says so
  no_route,    // a router or a firewall says that the host cannot be reached
  no_answer,   // nothing came back in time
  mute,        // the connection was accepted, and then nothing came
  stalled,     // short words pass, and many bytes do not
  other_node,  // another node of this meeting answers at that address
  stranger,    // some other program does
  failed,      // anything else; `words` has it
};

// One address and port of another node, as seen from here.
struct path_seen {
  std::string address;
  std::uint16_t port = 0;
  path_answer what = path_answer::ok;
  std::string words;  // the system's, or the token of who answers
};

enum class name_answer : std::uint8_t { not_asked, found, unknown, other, late };

struct peer_seen {
  std::vector<path_seen> paths;
  std::optional<std::int64_t> round_trip;   // the shortest of several
  std::optional<std::int64_t> clock_ahead;  // of the other one's clock, give or take half of that
  name_answer name = name_answer::not_asked;
  std::string name_words;                      // the addresses that its name stands for
  name_answer named = name_answer::not_asked;  // what its address stands for: `other`: not its name
  std::string named_words;                     // that name
  std::int64_t name_time = 0;                  // that the look-up took
  std::optional<double> mib_per_second;        // from here to there
};

// Of the folder that all are to share.
struct folder_seen {
  std::string problem;  // it cannot be used here; empty: it can
  std::string kind;     // of the file system: "nfs", "ext4"
  // By the other node: how long its new file, and then its new text, took to be seen here; none:
  // not within the limit.
  std::map<std::uint32_t, std::optional<std::int64_t>> appeared;
  std::map<std::uint32_t, std::optional<std::int64_t>> changed;
};

struct node_seen {
  std::map<std::uint32_t, peer_seen> peers;
  std::optional<folder_seen> folder;
};

// All that is known when the nodes part.
struct cluster_facts {
  cli::node_range wanted;  // --nnodes
  std::vector<node_card> cards;
  std::vector<std::optional<node_seen>> seen;  // by index; none: it went before it told
  std::map<std::uint32_t, std::string> gone;   // why, of those that went: "says nothing any more"
  std::string folder;                          // --shared
};

}  // namespace ddprun::launcher::doctor
