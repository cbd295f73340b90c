// Whether the folders respond that are searched for programs: those of PATH and the working
// directory. One on a hanging file server blocks every search.
//
// Thread rule: any thread; `find_silent_folders` blocks for up to `patience`, and a second for each
// folder that is then tried alone. The judge is pure.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

std::vector<std::string> find_silent_folders(const environment_map& environment);

// One error for each folder.
findings judge_silent_folders(const std::vector<std::string>& silent);

// The same environment without these folders in PATH, so that what is elsewhere can be examined.
environment_map without_folders(environment_map environment,
                                const std::vector<std::string>& silent);

}  // namespace ddprun::launcher::doctor
