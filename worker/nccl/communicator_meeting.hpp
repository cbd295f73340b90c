// How the ranks of a communicator find each other: by the ids that the launcher has created, or by
// one that rank 0 creates and the others read from the job store.
#pragma once

#include "worker/nccl/communicator_state.hpp"
#include "worker/nccl_id.hpp"

#include <string>
#include <vector>

namespace ddprun::worker {

// The prefix of this communicator's keys in the job store: "ddprun/nccl/3/world". Throws
// environment_error if the name was used before in this round.
std::string meeting_place(const environment& here, const std::string& name);

// Throws environment_error if the ids cannot be had, or do not fit this rank's NCCL.
std::vector<nccl_id> ids_to_meet(const environment& here, const communicator_options& options,
                                 const std::string& place, std::optional<store_client>& store,
                                 std::uint32_t version, const deadline& until);

}  // namespace ddprun::worker
