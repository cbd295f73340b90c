// How a node is checked after a failed round: --health-check and related options.
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <string>

namespace ddprun::launcher {

struct health_options {
  std::string command;  // for /bin/sh -c; a code other than 0 means unhealthy; empty: none
  duration limit = std::chrono::seconds(5);   // for the command; the node sits out beyond it
  duration again = std::chrono::seconds(60);  // until a node that sits out is checked again
};

}  // namespace ddprun::launcher
