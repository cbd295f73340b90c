#include "launcher/hosts/kubernetes/pod_placement.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "rendezvous/cli/values.hpp"

#include <optional>
#include <sstream>
#include <unistd.h>

namespace ddprun::launcher::kubernetes {
namespace {

std::string line_for(const std::string& name, const std::string& value) {
  return name + "=" + value;
}

// Notes variables that a pod carries for another launcher; workers get their own values anyway.
void note_contradictions(const environment_map& environment, hosts::placement& place) {
  const std::string rank = variable_or_empty(environment, "RANK");
  if (!rank.empty() && whole_number<std::uint32_t>(rank) != place.node_rank) {
    place.notes.push_back(line_for("RANK", rank) + " of this pod contradicts its index " +
                          std::to_string(place.node_rank) +
                          ", which counts; workers get ranks of their own");
  }
  const std::string local = variable_or_empty(environment, "LOCAL_RANK");
  if (!local.empty()) {
    place.notes.push_back(line_for("LOCAL_RANK", local) +
                          " of this pod is ignored: each worker gets its own");
  }
  const std::string master = variable_or_empty(environment, "MASTER_ADDR");
  if (!master.empty() && master != place.meeting_host) {
    place.notes.push_back(line_for("MASTER_ADDR", master) +
                          " of this pod is ignored: nodes meet at " + place.meeting_host +
                          ", and workers are told the address of the node with group rank 0");
  }
}

hosts::placement_outcome place_index(const pod_facts& pod, const environment_map& environment,
                                     const std::string& index_text) {
  const std::string given = line_for("JOB_COMPLETION_INDEX", index_text);
  const auto index = whole_number<std::uint32_t>(index_text);
  if (!index) return cli::usage_error{given + " is not a pod index: check who sets it"};
  const std::string subdomain = subdomain_of(pod);
  // An array job: its pods do not know each other.
  if (subdomain.empty()) return {};
  const std::string ending = "-" + index_text;
  if (!pod.host_name.ends_with(ending)) {
    return cli::usage_error{
        given + " does not fit this host's name, " + pod.host_name +
        ", so the other pods' names are unknown; write --rdzv-endpoint=HOST[:PORT], the name of "
        "the pod with index 0"};
  }
  const std::string job = pod.host_name.substr(0, pod.host_name.size() - ending.size());
  hosts::placement place;
  place.engine = "Kubernetes Job " + job;
  place.nodes = 0;
  place.node_rank = *index;
  place.meeting_host = job + "-0." + subdomain;
  place.meeting_port = cli::default_endpoint_port;
  place.run_id = job;
  note_contradictions(environment, place);
  return place;
}

bool is_of_pytorchjob(const std::string& host_name) {
  return host_name.ends_with("-master-0") || host_name.find("-worker-") != std::string::npos;
}

hosts::placement_outcome place_replica(const pod_facts& pod, const environment_map& environment) {
  const std::string rank_text = variable_or_empty(environment, "RANK");
  const std::string size_text = variable_or_empty(environment, "WORLD_SIZE");
  const std::string master = variable_or_empty(environment, "MASTER_ADDR");
  if (rank_text.empty() || size_text.empty() || master.empty()) return {};
  if (!is_of_pytorchjob(pod.host_name)) return {};
  const auto rank = whole_number<std::uint32_t>(rank_text);
  const auto size = whole_number<std::uint32_t>(size_text);
  const auto port = whole_number<std::uint32_t>(variable_or_empty(environment, "MASTER_PORT"));
  if (!rank || !size || *size == 0 || *rank >= *size || !port || *port == 0 || *port > 65535) {
    return cli::usage_error{line_for("RANK", rank_text) + ", " + line_for("WORLD_SIZE", size_text) +
                            " and " +
                            line_for("MASTER_PORT", variable_or_empty(environment, "MASTER_PORT")) +
                            " of this pod do not say which node of a PyTorchJob it is; write "
                            "--nnodes and --rdzv-endpoint=HOST[:PORT]"};
  }
  hosts::placement place;
  place.engine = "Kubernetes PyTorchJob at " + master;
  place.nodes = *size;
  place.node_rank = *rank;
  // The operator tells the first pod "localhost" as its own address.
  place.meeting_host = *rank == 0 && master == "localhost" ? pod.host_name : master;
  place.meeting_port = static_cast<std::uint16_t>(*port);
  const std::size_t end = place.meeting_host.rfind("-master-0");
  place.run_id = place.meeting_host.substr(0, end);
  return place;
}

}  // namespace

pod_facts read_pod(const std::string& root) {
  pod_facts pod;
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) pod.host_name = name;
  pod.hosts_file = whole_text(root + "etc/hosts");
  return pod;
}

// Kubelet writes HOST.SUBDOMAIN.NAMESPACE.svc.DOMAIN. A pod in its node's network has the node's
// names, and in gpu-7.corp.example "corp" is not a subdomain.
std::string subdomain_of(const pod_facts& pod) {
  const std::string beginning = pod.host_name + ".";
  std::istringstream lines(pod.hosts_file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    words >> word;  // the address
    while (words >> word) {
      if (!word.starts_with(beginning)) continue;
      const std::string rest = word.substr(beginning.size());
      const std::size_t name_space = rest.find('.');
      if (name_space == std::string::npos) continue;
      const std::size_t service = rest.find('.', name_space + 1);
      if (service == std::string::npos || rest.compare(service, 5, ".svc.") != 0) continue;
      return rest.substr(0, name_space);
    }
  }
  return {};
}

hosts::placement_outcome place_pod(const pod_facts& pod, const environment_map& environment) {
  const std::string index = variable_or_empty(environment, "JOB_COMPLETION_INDEX");
  return index.empty() ? place_replica(pod, environment) : place_index(pod, environment, index);
}

hosts::placement_outcome find_pod_placement(const environment_map& environment) {
  const bool is_pod = !variable_or_empty(environment, "KUBERNETES_SERVICE_HOST").empty() ||
                      !variable_or_empty(environment, "JOB_COMPLETION_INDEX").empty();
  if (!is_pod) return {};
  return place_pod(read_pod("/"), environment);
}

}  // namespace ddprun::launcher::kubernetes
