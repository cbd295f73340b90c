// What Python has installed for the workers. Python is asked (0.05 s), because only Python knows
// where its packages are; none is imported. No answer within 30 s counts as not installed.
//
// Thread rule: any thread; blocks.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher {

// The version of PyTorch, such as "2.15.0+cu132"; empty if it is not installed.
std::string installed_torch(const environment_map& environment);

// The libnccl that PyTorch's wheels load, by an RPATH that LD_LIBRARY_PATH does not override; empty
// if NCCL is not a package.
std::string installed_nccl(const environment_map& environment);

}  // namespace ddprun::launcher
