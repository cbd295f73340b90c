// The ancestors of this process: its parent, the parent of that, and so on, as /proc has them.
//
// Thread rule: any thread; reads /proc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

struct ancestor {
  int pid = 0;
  std::string name;  // as the kernel has it: 15 bytes at most
  std::vector<std::string> arguments;
};

using ancestors = std::vector<ancestor>;  // the nearest first

// As far as they are to be seen: a container's first process has none.
ancestors own_ancestors(const std::string& proc = "/proc");

// Whether it has this name, given the whole one: "hydra_bstrap_pr" is that of hydra_bstrap_proxy.
bool is_named(const ancestor& process, std::string_view whole_name);

}  // namespace ddprun::launcher::hosts::mpi
