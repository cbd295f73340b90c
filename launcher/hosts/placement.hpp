// A placement is what a cluster's own engine (Slurm, MPI, Kubernetes, ...) says about this process:
// which node it is among how many, and where the nodes can meet. It stands in for options that the
// person has not typed.
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
  // 0: the engine does not tell its nodes, and the person has to write --nnodes.
  std::uint32_t nodes = 1;
  std::uint32_t node_rank = 0;  // 0 to nodes - 1, where that is known

  // With more than one node: where that with rank 0 is to hold the daemon, the same words on all
  // nodes.
  std::string meeting_host;  // a name or a numeric address, without brackets
  std::uint16_t meeting_port = 0;
  // Where another program has that port the daemon takes the first of these that is free, and the
  // other nodes look for their run at each. Empty: there is no other.
  std::vector<std::uint16_t> more_meeting_ports;

  std::string run_id;                    // tells this job from others at the same endpoint
  std::optional<std::uint32_t> workers;  // on this node; empty: the engine gives no GPUs
  std::string local_address;             // under which the others reach this node; empty: found out
  bool tags_lines = false;               // the engine begins each line of output with whose it is
  std::vector<std::string> notes;        // what the person should know, a line each
};

// Nothing: no engine has started this process. An error: one has, in a way that cannot work.
using placement_outcome = std::variant<std::monostate, placement, cli::usage_error>;

}  // namespace ddprun::launcher::hosts
