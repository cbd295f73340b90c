// Which node a pod is, and where the pods meet, from what Kubernetes has given it:
//
//   Indexed Job, JobSet  JOB_COMPLETION_INDEX; the host name, which ends in it; the subdomain, by
//                        which a headless Service names the pods, from the pod's /etc/hosts. The
//                        first is PREFIX-0.SUBDOMAIN. How many there are no pod is told: the person
//                        writes --nnodes.
//   PyTorchJob           RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the older operators,
//   which
//                        set no PET_*: there they number pods, not workers.
//
// Kubeflow's PET_* are options, read as such, and come first.
//
// Thread rule: `read_pod` opens two files; the rest is pure.
#pragma once

#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher::kubernetes {

struct pod_facts {
  std::string host_name;
  std::string
      hosts_file;  // as kubelet wrote it: "10.1.0.7 train-1.train.ns.svc.cluster.local train-1"
};

// `root` is where /etc is: "/".
pod_facts read_pod(const std::string& root);

// The part behind the host's own name in the hosts file, where that is of the form above: "train";
// empty: it has none.
std::string subdomain_of(const pod_facts& pod);

hosts::placement_outcome place_pod(const pod_facts& pod, const environment_map& environment);

// The engine's row: looks at the pod only where the environment is that of one.
hosts::placement_outcome find_pod_placement(const environment_map& environment);

}  // namespace ddprun::launcher::kubernetes
