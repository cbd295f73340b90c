// The pod of a manifest, which all kinds share: one container with ddprun as its first process,
// /dev/shm, probes, resources and the grace period.
#pragma once

#include "launcher/hosts/kubernetes/manifest_request.hpp"
#include "launcher/hosts/kubernetes/yaml.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::kubernetes {

// How the kinds differ.
struct pod_shape {
  std::string_view container = "ddprun";
  std::string_view subdomain = {};      // empty: the kind's own controller sets it
  std::string_view restarts = "Never";  // the pod's restartPolicy; empty: the controller sets it
  bool has_line = true;                 // image, command and resources are here
  bool tells_size = true;  // ddprun's command line has the numbers of nodes and workers
  bool knows_job = true;   // the Job's label identifies it
};

// ddprun's arguments in a pod; the script and its arguments come last.
std::vector<std::string> pod_arguments(const manifest_request& request, const pod_shape& shape);

// Writes "command" and "args".
void write_line(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape);
// Writes "limits" and "requests".
void write_resources(yaml_writer& yaml, const manifest_request& request);

// Writes the mapping below "template" of a Job: metadata and spec.
void write_pod(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape);

}  // namespace ddprun::launcher::kubernetes
