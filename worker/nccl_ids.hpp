// NCCL's unique ids of this round, which the launcher has made (ddprun --nccl-ids): what each rank
// gives to ncclCommInitRank or ncclCommInitRankScalable, without asking another rank.
//
// Each is good for one communicator, in this round. No header of NCCL is needed here: an id is
// NCCL_UNIQUE_ID_BYTES bytes, and ncclUniqueId holds just these.
//
//   const auto ids = read_nccl_ids(read_environment(), 30s, version);
//   ncclUniqueId id;
//   std::memcpy(&id, ids.front().data(), sizeof id);
//
// Thread rule: plain values; blocks until `until`, at most, where the ids are in the job store.
// Errors: environment_error, one line that says what and what to do.
#pragma once

#include "worker/deadline.hpp"
#include "worker/environment.hpp"
#include "worker/nccl_id.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::worker {

// At least one, in the order in which every rank of the round has them. `version` is that of the
// NCCL which this worker has loaded (ncclGetVersion), such as 23007: ids of another one are
// refused, as the ranks would not understand each other. 0: it is not compared.
std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version, const variable_lookup& lookup);

// The same from this process's own variables.
std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version = 0);

}  // namespace ddprun::worker
