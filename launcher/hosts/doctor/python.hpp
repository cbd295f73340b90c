// The Python and PyTorch that workers on this node would use, and whether its CUDA fits the driver.
//
// Thread rule: `read_python` may be called from any thread; it starts Python, and blocks for up to
// a minute if that hangs. The judge is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <optional>

namespace ddprun::launcher::doctor {

struct python_facts {
  std::string python;   // its path; empty: not found
  std::string wanted;   // the name that was searched
  std::string torch;    // "2.15.0+cu132"; empty: not installed
  std::string nccl;     // the library that PyTorch loads; empty: not a package
  int driver_cuda = 0;  // the newest CUDA that the driver supports: 13020; 0: no driver
};

python_facts read_python(const environment_map& environment);

findings judge_python(const python_facts& facts);

}  // namespace ddprun::launcher::doctor
