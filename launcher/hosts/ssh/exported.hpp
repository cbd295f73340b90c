// The exported variables are those of the head's environment that go to the other hosts: by a list
// of what programs there look for, and by -x.
//
// What belongs to one host (HOME, TMPDIR, CUDA_VISIBLE_DEVICES, what a scheduler has set) stays:
// the other host's own counts there. -x takes anything.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

// True: it goes to other hosts without being asked for.
bool is_exported(std::string_view name);

// What the other hosts get. `asked`: the values of -x: NAME, NAME=VALUE, and several with commas as
// horovodrun's users write them (a comma after "=" belongs to the value). A NAME that is not set is
// an error.
cli::parsed<environment_map> exported_variables(const environment_map& own,
                                                const std::vector<std::string>& asked);

}  // namespace ddprun::launcher::ssh
