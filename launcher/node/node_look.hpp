// What a look at this node has found.
#pragma once

#include <string>

namespace ddprun::launcher {

struct node_look {
  std::string
      unhealthy;        // why it should take no part in another round, in one line; empty: nothing
  std::string warning;  // what the person should know, in one line; empty: nothing
};

}  // namespace ddprun::launcher
