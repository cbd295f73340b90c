// Where the ranks of a communicator meet: the ids that the launcher has made, or one that rank 0
// makes and the others find in the job store.
#pragma once

#include "worker/nccl/communicator_state.hpp"
#include "worker/nccl_id.hpp"

#include <string>
#include <vector>

namespace ddprun::worker {

// The keys of this communicator in the job store: "ddprun/nccl/3/world". Once for each name in a
// round: environment_error.
std::string meeting_place(const environment& here, const std::string& name);

// Errors: environment_error for ids that are of no use here.
std::vector<nccl_id> ids_to_meet(const environment& here, const communicator_options& options,
                                 const std::string& place, std::optional<store_client>& store,
                                 std::uint32_t version, const deadline& until);

}  // namespace ddprun::worker
