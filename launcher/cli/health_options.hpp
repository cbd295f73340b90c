// How a node is checked after a round that failed: --health-check and what belongs to it.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <string>

namespace ddprun::launcher {

struct health_options {
  std::string command;  // for /bin/sh -c; a code other than 0: the node is unhealthy; empty: none
  duration limit = std::chrono::seconds(5);   // of the command; the node sits out beyond it
  duration again = std::chrono::seconds(60);  // until a node that sits out is looked at once more
};

}  // namespace ddprun::launcher
