// `ddprun doctor --nnodes N`: the part in which the nodes examine each other.
//
// Thread rule: one thread, which starts others. Blocks for up to `meeting_options::wait` until all
// nodes have come, and then as long as it takes, even if some of them are lost.
#pragma once

#include "launcher/cli/wanted_networks.hpp"
#include "launcher/hosts/doctor/doctor_meeting.hpp"
#include "launcher/hosts/doctor/network_facts.hpp"
#include "launcher/hosts/doctor/python.hpp"
#include "launcher/hosts/doctor/report.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <functional>
#include <string>

namespace ddprun::launcher::doctor {

struct cluster_wishes {
  meeting_options meeting;
  std::vector<wanted_network> networks;  // empty: the network of the endpoint
  std::string folder;                    // to be shared by all; empty: none
  bool wants_bandwidth = false;
  std::function<void(const std::string&)> say;  // gets lines for a waiting user; may be empty
};

// What is already known about this node.
struct own_facts {
  findings found;
  network_facts network;
  endpoint_facts endpoint;
  python_facts python;
};

cluster_report examine_cluster(const cluster_wishes& wishes, const own_facts& own,
                               const environment_map& environment);

}  // namespace ddprun::launcher::doctor
