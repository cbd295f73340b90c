// Runs a small program and returns its output.
//
// Its standard input is empty and its standard error is dropped. It is killed once its output is
// long enough, or takes too long; processes that it has started are not.
//
// Thread rule: any thread; blocks until `limit` at most, unless the kernel cannot end the program.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher {

// Returns its complete output, or `bytes_max` of it. Empty: it cannot be started, or has not ended
// in time. `words` begin with its name, which is looked up in this process's own PATH.
std::string program_answer(std::vector<std::string> words, const environment_map& environment,
                           duration limit, std::size_t bytes_max);

}  // namespace ddprun::launcher
