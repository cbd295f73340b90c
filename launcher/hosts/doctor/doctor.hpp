// `ddprun doctor` finds what on this node would make the first job fail, and says what to do about
// it.
//
// Thread rule: the main thread, before any other exists; it blocks while it asks name services,
// Python and the endpoint.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/option.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// `words` follow "doctor" on the command line. Writes to standard output. Returns the exit code: 0;
// 1 if there is an error; 2 for a usage error.
int examine(const std::vector<std::string>& words, const environment_map& environment);

// The doctor's options.
const cli::command& doctor_command();

}  // namespace ddprun::launcher::doctor
