// NCCL's unique ids of this round, which the launcher has created (ddprun --nccl-ids). Each rank
// passes them to ncclCommInitRank or ncclCommInitRankScalable without having to ask another rank.
//
// Each id is good for one communicator in this round. NCCL's header is not needed here: an id is
// NCCL_UNIQUE_ID_BYTES bytes, which is exactly the content of ncclUniqueId.
//
//   const auto ids = read_nccl_ids(read_environment(), 30s, version);
//   ncclUniqueId id;
//   std::memcpy(&id, ids.front().data(), sizeof id);
//
// Thread rule: any thread, under the rule of read_environment(). If the ids are in the job store,
// the call blocks, until `until` at most.
// Errors: environment_error, whose one line says what is wrong and what to do.
#pragma once

#include "worker/deadline.hpp"
#include "worker/environment.hpp"
#include "worker/nccl_id.hpp"

#include <cstdint>
#include <vector>

namespace ddprun::worker {

// At least one id, in the same order on every rank of the round. `version` is that of the NCCL that
// this worker has loaded (ncclGetVersion), such as 23007. Ids that another version has created are
// refused, because the ranks would not understand each other. With 0 the version is not compared.
std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version, const variable_lookup& lookup);

// Reads this process's own variables.
std::vector<nccl_id> read_nccl_ids(const environment& here, const deadline& until,
                                   std::uint32_t version = 0);

}  // namespace ddprun::worker
