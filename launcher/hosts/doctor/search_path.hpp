// Whether the folders answer in which every program of a job is looked for: those of PATH and the
// working directory. One on a file server that hangs holds up whatever looks there.
//
// Thread rule: any thread; `find_silent_folders` blocks for `patience` at most. The judge is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

std::vector<std::string> find_silent_folders(const environment_map& environment);

// One error for each.
findings judge_silent_folders(const std::vector<std::string>& silent);

// The same environment, without those in PATH: what is found elsewhere can be looked at.
environment_map without_folders(environment_map environment,
                                const std::vector<std::string>& silent);

}  // namespace ddprun::launcher::doctor
