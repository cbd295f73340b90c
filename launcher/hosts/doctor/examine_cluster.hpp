// `ddprun doctor --nnodes N`: the part in which the nodes examine each other.
//
// Thread rule: one thread; it has its own ones. Blocks: for `meeting_options::wait` until the
// others are there, and for as long as it takes then, however many of them are lost meanwhile.
#pragma once

#include "launcher/cli/wanted_networks.hpp"
#include "launcher/hosts/doctor/meeting.hpp"
#include "launcher/hosts/doctor/network.hpp"
#include "launcher/hosts/doctor/python.hpp"
#include "launcher/hosts/doctor/report.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <functional>
#include <string>

namespace ddprun::launcher::doctor {

struct cluster_wishes {
  meeting_options meeting;
  std::vector<wanted_network> networks;  // empty: by which the endpoint is reached
  std::string folder;                    // that all are to share; empty: none
  bool wants_bandwidth = false;
  std::function<void(const std::string&)> say;  // a line for a person who waits; may be empty
};

// What is known of this node already.
struct own_facts {
  findings found;
  network_facts network;
  endpoint_facts endpoint;
  python_facts python;
};

cluster_report examine_cluster(const cluster_wishes& wishes, const own_facts& own,
                               const environment_map& environment);

}  // namespace ddprun::launcher::doctor
