// The ancestors of this process: its parent, its grandparent and so on, from /proc.
//
// Thread rule: any thread; reads /proc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::hosts::mpi {

struct ancestor {
  int pid = 0;
  std::string name;  // from the kernel: 15 bytes at most
  std::vector<std::string> arguments;
};

using ancestors = std::vector<ancestor>;  // the nearest first

// As far as they are visible: a container's first process has none.
ancestors own_ancestors(const std::string& proc = "/proc");

// True if the process has this (whole) name: "hydra_bstrap_pr" matches hydra_bstrap_proxy.
bool is_named(const ancestor& process, std::string_view whole_name);

}  // namespace ddprun::launcher::hosts::mpi
