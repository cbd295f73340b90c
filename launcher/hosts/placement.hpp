// A placement is what a cluster's engine (Slurm, MPI, Kubernetes, ...) says about this process:
// which node it is among how many, and where the nodes can meet. It replaces options that the user
// has not typed.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher::hosts {

struct placement {
  std::string engine;  // for messages: "Slurm step 12.0", "Kubernetes Job train"
  // 0: the engine does not tell its nodes, so the user must write --nnodes.
  std::uint32_t nodes = 1;
  std::uint32_t node_rank = 0;  // 0 to nodes - 1, if known

  // With more than one node: where the node with rank 0 should run the daemon, the same text on all
  // nodes.
  std::string meeting_host;  // a name or a numeric address, without brackets
  std::uint16_t meeting_port = 0;
  // If another program has that port, the daemon takes the first of these that is free, and the
  // other nodes look for their run at each. Empty: no alternatives.
  std::vector<std::uint16_t> more_meeting_ports;

  std::string run_id;                    // distinguishes this job from others at the same endpoint
  std::optional<std::uint32_t> workers;  // on this node; empty: the engine assigns no GPUs
  std::string local_address;             // at which others reach this node; empty: detected
  bool tags_lines = false;               // the engine prefixes each output line
  std::vector<std::string> notes;        // for the user, a line each
};

// Monostate: no engine has started this process. Error: one has, in a way that cannot work.
using placement_outcome = std::variant<std::monostate, placement, cli::usage_error>;

}  // namespace ddprun::launcher::hosts
