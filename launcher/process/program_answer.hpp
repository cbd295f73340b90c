// Asks a small program something: runs it, and takes what it prints.
//
// It reads nothing, and what it says on standard error is not heard. It is killed once it has said
// enough, or nothing for too long; what it has started itself is not.
//
// Thread rule: any thread; blocks until `limit`, at most, as long as the kernel can end the
// program.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher {

// Up to its end, or to `bytes_max`. Empty when it cannot be started or has not ended in time.
// `words` begin with its name, which is looked up in this process's own PATH.
std::string program_answer(std::vector<std::string> words, const environment_map& environment,
                           duration limit, std::size_t bytes_max);

}  // namespace ddprun::launcher
