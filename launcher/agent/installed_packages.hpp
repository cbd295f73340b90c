// The PyTorch that the workers will import.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher {

// Its version, such as "2.15.0+cu132"; empty when there is none, or when Python has not said so
// within 30 s. Python is asked (0.05 s), for only Python knows where its packages are. PyTorch is
// not imported.
std::string installed_torch(const environment_map& environment);

}  // namespace ddprun::launcher
