// Ranks that open a snapshot folder together find each other in the job store, whatever earlier
// openings have left there.
//
// ddprun gives each round an instance and a number, so each rank only needs to count its openings.
// Under torchrun a membership change restarts the workers with the same store and a restart count
// that may differ between nodes; ranks are reassigned, and counts differ. In that case rank 0 draws
// a random number, each other rank sends one of its own to it, and continues when rank 0 has
// returned that one.
//
// Thread rule: one thread, as for store_client.
#pragma once

#include "worker/environment.hpp"
#include "worker/store_client.hpp"

#include <chrono>
#include <string>

namespace ddprun::worker {

// Returns the prefix of this opening's keys, which is the same on all ranks. `apart` is how far
// apart in time the ranks may be. Errors: the store's; errc::timed_out. `problem` is one line.
result<std::string> find_opening(store_client& store, const environment& here,
                                 const std::string& name, std::chrono::milliseconds apart,
                                 std::string& problem);

}  // namespace ddprun::worker
