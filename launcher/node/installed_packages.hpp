// What Python has installed for the workers. Python is asked (0.05 s), for only Python knows where
// its packages are; none of them is imported. No answer within 30 s counts as none.
//
// Thread rule: any thread; blocks.
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>

namespace ddprun::launcher {

// The version of PyTorch, such as "2.15.0+cu132"; empty where there is none.
std::string installed_torch(const environment_map& environment);

// The libnccl that PyTorch's wheels load, by an RPATH that no LD_LIBRARY_PATH overrides; empty
// where NCCL is no package.
std::string installed_nccl(const environment_map& environment);

}  // namespace ddprun::launcher
