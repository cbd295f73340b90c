// `ddprun doctor`: what on this node would make the first job fail, and what to do about it.
//
// Thread rule: the main thread, before any other exists; it blocks while it asks name services,
// Python and the endpoint.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/option.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher::doctor {

// `words` are those behind "doctor". Writes to standard output. What the process exits with: 0; 1
// when something is an error; 2 for a mistake on the command line.
int examine(const std::vector<std::string>& words, const environment_map& environment);

// Its options.
const cli::command& doctor_command();

}  // namespace ddprun::launcher::doctor
