// The request to `ddprun manifest kubernetes`, read and checked.
//
// Errors: one usage_error line.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::launcher::kubernetes {

enum class manifest_kind { job, jobset, trainjob, pytorchjob };

// The agents' port and their health port in each pod.
inline constexpr std::uint16_t rendezvous_port = 29400;
inline constexpr std::uint16_t health_port = 29401;

struct manifest_request {
  manifest_kind kind = manifest_kind::job;
  std::uint32_t nodes_min = 1;
  std::uint32_t nodes_max = 1;
  std::uint32_t gpus = 0;  // per node
  std::string gpu_resource = "nvidia.com/gpu";
  std::string image;
  std::string name;        // of the job and its Service
  std::string name_space;  // empty: kubectl's
  std::string processors;  // per node; empty: all there are
  std::string memory;      // the same
  std::string shared_memory = "8Gi";
  std::string rdma_resource;  // empty: none
  std::string claim;          // a PersistentVolumeClaim; empty: none
  std::string claim_path;     // where it is mounted
  std::vector<std::pair<std::string, std::string>> variables;
  bool restarts_containers = false;

  std::uint32_t workers = 0;           // per node; 0: see `workers_word`
  std::string workers_word;            // "auto"
  std::vector<std::string> options;    // for the ddprun in the pod, except those below
  std::string program;                 // the script
  std::vector<std::string> arguments;  // the script's
  std::chrono::seconds grace{};        // from a pod's SIGTERM to its SIGKILL
  std::vector<std::string> notes;      // for the user

  bool is_elastic() const { return nodes_min != nodes_max; }
};

using request_outcome = std::variant<manifest_request, cli::show_text, cli::usage_error>;

// `words` follow "manifest kubernetes" on the command line.
request_outcome read_request(const std::vector<std::string>& words);

}  // namespace ddprun::launcher::kubernetes
