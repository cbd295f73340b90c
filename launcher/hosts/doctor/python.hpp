// The Python and the PyTorch that workers on this node would run with, and whether its CUDA and the
// driver go together.
//
// Thread rule: `read_python` any thread; it starts Python, and blocks for up to a minute where that
// hangs. The judge is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <optional>

namespace ddprun::launcher::doctor {

struct python_facts {
  std::string python;   // its path; empty: there is none
  std::string wanted;   // the name that was looked for
  std::string torch;    // "2.15.0+cu132"; empty: not installed
  std::string nccl;     // the library that PyTorch loads; empty: not a package
  int driver_cuda = 0;  // the newest CUDA that the driver knows: 13020; 0: no driver
};

python_facts read_python(const environment_map& environment);

findings judge_python(const python_facts& facts);

}  // namespace ddprun::launcher::doctor
