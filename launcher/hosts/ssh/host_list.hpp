// A host list is the hosts on which `ddprun -H` starts agents, and the number of workers of each.
// It comes from the command line, or from a file in a form that other launchers read.
//
//   -H a:4,user@b:4,[fe80::1]:2     horovodrun's, OpenMPI's, MPICH's; IPv6 in brackets
//   a slots=4 max_slots=8           OpenMPI's and DeepSpeed's hostfile; "#" begins a comment
//   a:4                             hydra's
//   a                               PBS_NODEFILE: a line for each worker
//
// A host that is named twice has the workers of both. A name without a number has one worker, or as
// many as --nproc-per-node says if no line has a number.
//
// Errors: one line, which names the line of a file.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

struct host {
  std::string name;  // without brackets; may be an alias from ssh's configuration
  std::string user;  // empty: --ssh-user, else ssh's default
  std::uint32_t slots = 0;
  bool has_number = false;          // one of its mentions has a number of slots
  std::vector<std::uint32_t> gpus;  // chosen by a filter; empty: not chosen
};

// `given` is the option as the user wrote it.
cli::parsed<std::vector<host>> read_host_list(std::string_view given, std::string_view text);

// `text` is the content of the file; `path` is for messages.
cli::parsed<std::vector<host>> read_hostfile(const std::string& path, std::string_view text);

// Applies a DeepSpeed filter: "a@b:0,2" means all of host a, and GPUs 0 and 2 of host b. `keeps` is
// true for --include, false for --exclude.
cli::checked filter_hosts(std::vector<host>& hosts, std::string_view given, std::string_view text,
                          bool keeps);

}  // namespace ddprun::launcher::ssh
