// Finds out which node a pod is, and where the pods meet, from what Kubernetes provides:
//
// Indexed Job, JobSet: JOB_COMPLETION_INDEX; the host name, which ends in it; and the subdomain,
// under which a headless Service names the pods, from the pod's /etc/hosts. The first pod is
// PREFIX-0.SUBDOMAIN. No pod is told how many there are, so the user writes --nnodes.
// PyTorchJob: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of older operators, which set no PET_*:
// they number pods, not workers.
//
// Kubeflow's PET_* are read as options and come first.
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

// `root` contains etc: "/".
pod_facts read_pod(const std::string& root);

// The part after the host's own name in the hosts file, if it has the form above: "train"; empty:
// there is none.
std::string subdomain_of(const pod_facts& pod);

hosts::placement_outcome place_pod(const pod_facts& pod, const environment_map& environment);

// The engine's row: reads the pod's files only if the environment is a pod's.
hosts::placement_outcome find_pod_placement(const environment_map& environment);

}  // namespace ddprun::launcher::kubernetes
