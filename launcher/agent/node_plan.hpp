// What this node has for its workers: how many there are, which network they use, which GPUs they
// see, and on which CPUs they run. It is found by examining the machine before anything starts;
// options that the machine cannot satisfy are refused.
//
// Thread rule: any thread; asks the kernel, and reads /dev, /proc and /sys.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct node_plan {
  environment_map environment;  // what the workers inherit
  std::string address;          // to publish; empty: not known yet
  std::uint32_t workers = 1;
  std::uint32_t visible_gpus = 0;
  std::vector<std::vector<int>> processors;  // by local rank; empty: as ours
  std::vector<std::string> notes;            // a line each, for standard error
};

cli::parsed<node_plan> plan_node(const launch_options& options, const environment_map& inherited);

}  // namespace ddprun::launcher
