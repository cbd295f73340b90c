// How others see this node: its name, its interfaces, the kernel's port range, and whether it
// reaches the rendezvous endpoint.
//
// Thread rule: one thread; `read_network` and `read_endpoint` block, each for up to `patience`. The
// judges are pure.
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
// For each of several checks that are made one after the other.
inline constexpr std::chrono::seconds short_patience{1};

struct network_facts {
  std::string host_name;
  std::string name_problem;   // as in gloo_interface.hpp; empty: others find this host by its name
  bool is_name_late = false;  // no answer within `patience`
  // Own addresses that resolve to another name or, with an empty name, got no answer within
  // `short_patience`.
  std::map<std::string, std::string> strange_names;
  std::vector<interface_address> addresses;
  std::map<std::string, std::uint64_t> packet_sizes;  // MTU by interface, bytes
  std::uint64_t first_handed_out = 0;                 // the port range for outgoing connections; 0:
  std::uint64_t last_handed_out = 0;                  // unknown
};

network_facts read_network(const std::filesystem::path& root);

// `environment`: the variables that name interfaces. `port` is the endpoint's.
findings judge_network(const network_facts& facts, const environment_map& environment,
                       std::uint16_t port);

struct endpoint_facts {
  cli::endpoint_address endpoint;
  std::vector<std::string> addresses;  // that its name resolves to
  std::string look_up_problem;
  bool is_here = false;     // an address of this node: ddprun runs the daemon in its agent
  std::string own_address;  // from which this node would reach it; empty: no route
  std::string own_interface;
  std::string dial_problem;           // empty: something accepts connections there
  std::optional<port_holder> holder;  // what listens there, if it is here and may be known
};

endpoint_facts read_endpoint(const std::filesystem::path& root,
                             const cli::endpoint_address& endpoint);

finding judge_endpoint(const endpoint_facts& facts);

}  // namespace ddprun::launcher::doctor
