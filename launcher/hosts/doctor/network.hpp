// How this node is known to others: its name, its interfaces, the ports that the kernel hands out,
// and whether it reaches the rendezvous endpoint.
//
// Thread rule: one thread; `read_network` and `read_endpoint` block, for `patience` at most each.
// The judges are pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "launcher/hosts/doctor/port_holder.hpp"
#include "launcher/network/own_addresses.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/cli/values.hpp"

#include <filesystem>
#include <map>
#include <optional>

namespace ddprun::launcher::doctor {

inline constexpr std::chrono::seconds patience{5};
// For one of several that are looked at one after the other.
inline constexpr std::chrono::seconds short_patience{1};

struct network_facts {
  std::string host_name;
  std::string name_problem;   // as gloo_interface.hpp has it; empty: others find this host by it
  bool is_name_late = false;  // no answer within `patience`
  // What its addresses stand for, the other way round: of those that lead to another name, or, with
  // an empty name, to no answer within `short_patience`.
  std::map<std::string, std::string> strange_names;
  std::vector<interface_address> addresses;
  std::map<std::string, std::uint64_t> packet_sizes;  // by interface: its MTU, bytes
  std::uint64_t first_handed_out = 0;  // ports that the kernel gives to outgoing connections; 0:
  std::uint64_t last_handed_out = 0;   // not known
};

network_facts read_network(const std::filesystem::path& root);

// `environment`: the variables that name interfaces. `port` is that of the endpoint.
findings judge_network(const network_facts& facts, const environment_map& environment,
                       std::uint16_t port);

struct endpoint_facts {
  cli::endpoint_address endpoint;
  std::vector<std::string> addresses;  // what its name stands for
  std::string look_up_problem;
  bool is_here = false;     // an address of this node: ddprun starts the daemon in its agent
  std::string own_address;  // from which this node would reach it; empty: there is no route
  std::string own_interface;
  std::string dial_problem;           // empty: somebody accepts connections there
  std::optional<port_holder> holder;  // who that is, where it is here and may be known
};

endpoint_facts read_endpoint(const std::filesystem::path& root,
                             const cli::endpoint_address& endpoint);

finding judge_endpoint(const endpoint_facts& facts);

}  // namespace ddprun::launcher::doctor
