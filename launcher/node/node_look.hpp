// What a look at this node has found.
#pragma once

#include "launcher/node/gpu_holders.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

struct node_look {
  // Why it should take no part in another round, in one line; empty: nothing.
  std::string unhealthy;
  // What the person should know, in one line; empty: nothing.
  std::string warning;
  // Processes of this job that SIGKILL was sent to and that still have a GPU open. To let go of
  // gigabytes takes the driver seconds, so this is a fault only if it lasts.
  std::vector<gpu_holder> dying;
};

}  // namespace ddprun::launcher
