// A host list is which hosts `ddprun -H` starts agents on, and how many workers each has: from the
// command line, or from a file in one of the forms that other launchers read.
//
//   -H a:4,user@b:4,[fe80::1]:2     horovodrun's, OpenMPI's, MPICH's; IPv6 in brackets
//   a slots=4 max_slots=8           OpenMPI's and DeepSpeed's hostfile; "#" begins a comment
//   a:4                             hydra's
//   a                               PBS_NODEFILE: a line for each worker
//
// A host that is named twice has the workers of both. A name without a number is one worker, or as
// many as --nproc-per-node says where no line has a number.
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
  std::string name;  // without brackets; ssh's configuration may know it by that alone
  std::string user;  // empty: ssh's default, or --ssh-user
  std::uint32_t slots = 0;
  bool has_number = false;          // of slots, in any of its mentions
  std::vector<std::uint32_t> gpus;  // chosen by a filter; empty: not chosen
};

// `given` is the option as the person wrote it.
cli::parsed<std::vector<host>> read_host_list(std::string_view given, std::string_view text);

// The text of a file; `path` is for messages.
cli::parsed<std::vector<host>> read_hostfile(const std::string& path, std::string_view text);

// DeepSpeed's filters: "a@b:0,2" is host a whole, and of host b the GPUs 0 and 2. `keeps`:
// --include; else --exclude.
cli::checked filter_hosts(std::vector<host>& hosts, std::string_view given, std::string_view text,
                          bool keeps);

}  // namespace ddprun::launcher::ssh
