// The exported variables are those of the head's environment that the other hosts get: a list of
// what programs look for, and -x.
//
// What belongs to one host (HOME, TMPDIR, CUDA_VISIBLE_DEVICES, a scheduler's variables) is not
// exported: the other host has its own. -x exports anything.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

// True if it is exported without being asked for.
bool is_exported(std::string_view name);

// The variables that the other hosts get. `asked` has the values of -x: NAME, NAME=VALUE, or
// several with commas as in horovodrun (a comma after "=" belongs to the value). A NAME that is not
// set is an error.
cli::parsed<environment_map> exported_variables(const environment_map& own,
                                                const std::vector<std::string>& asked);

}  // namespace ddprun::launcher::ssh
