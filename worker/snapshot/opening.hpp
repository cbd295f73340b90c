// The ranks that open a snapshot folder together find each other in the job store, whatever earlier
// openings have left there: what was said then is no word on this one.
//
// ddprun gives each round an instance and a number, so that each rank only counts how often it has
// opened them. Under torchrun a membership change starts the workers anew with the same store and
// a restart count that may differ between nodes; ranks change hands, and counts differ. There rank
// 0 draws a number, each other rank tells it one of its own, and goes on when rank 0 has said that
// one back.
#pragma once

#include "worker/environment.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <string>

namespace ddprun::worker {

// What the keys of this opening begin with, the same on all ranks. `apart` is how far ranks may be
// apart. Errors: of the store; errc::timed_out; `problem` is one line.
result<std::string> find_opening(store_client& store, const environment& here,
                                 const std::string& name, std::chrono::milliseconds apart,
                                 std::string& problem);

}  // namespace ddprun::worker
