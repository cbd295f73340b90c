// The pod of a manifest, which is the same for all kinds: one container with ddprun as its first
// process, /dev/shm, probes, resources and the time to leave.
#pragma once

#include "launcher/hosts/kubernetes/manifest_request.hpp"
#include "launcher/hosts/kubernetes/yaml.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::kubernetes {

// What differs between the kinds.
struct pod_shape {
  std::string_view container = "ddprun";
  std::string_view subdomain = {};      // empty: the kind's own controller sets it
  std::string_view restarts = "Never";  // the pod's restartPolicy; empty: the controller sets it
  bool has_line = true;                 // image, command and resources are here
  bool tells_size = true;               // the number of nodes and workers is on ddprun's line
  bool knows_job = true;                // the Job's label says which one it is
};

// What ddprun is given in a pod, the script and its arguments last.
std::vector<std::string> pod_arguments(const manifest_request& request, const pod_shape& shape);

// "command" and "args".
void write_line(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape);
// "limits" and "requests".
void write_resources(yaml_writer& yaml, const manifest_request& request);

// The mapping below "template" of a Job: metadata and spec.
void write_pod(yaml_writer& yaml, const manifest_request& request, const pod_shape& shape);

}  // namespace ddprun::launcher::kubernetes
