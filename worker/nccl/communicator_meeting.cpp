#include "worker/nccl/communicator_meeting.hpp"

#include "worker/nccl_ids.hpp"
#include "worker/nccl_version.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace ddprun::worker {
namespace {

static_assert(sizeof(ncclUniqueId) == nccl_id_bytes);

// "23007 0cc4c24d...": the version that has created the id, and the id.
std::string made_here(std::uint32_t version) {
  ncclUniqueId made;
  if (const ncclResult_t code = ncclGetUniqueId(&made); code != ncclSuccess) {
    throw nccl_error("rank 0: NCCL " + nccl_version_text(version) + " cannot create an id: " +
                     ncclGetErrorString(code) + ": " + ncclGetLastError(nullptr));
  }
  nccl_id id;
  std::memcpy(id.data(), &made, sizeof made);
  return std::to_string(version) + " " + nccl_id_text(id);
}

nccl_id read_offer(const std::string& offer, std::uint32_t version) {
  const std::size_t space = offer.find(' ');
  std::uint32_t made_by = 0;
  std::from_chars(offer.data(), offer.data() + std::min(space, offer.size()), made_by);
  if (made_by != version) {
    throw environment_error("NCCL " + nccl_version_text(version) +
                            " is loaded here, but rank 0 has created the id with NCCL " +
                            nccl_version_text(made_by) + ": install the same version on all nodes");
  }
  const auto id = space == std::string::npos
                      ? std::nullopt
                      : nccl_id_from(std::string_view(offer).substr(space + 1));
  if (!id) throw environment_error("what rank 0 has left in the job store is not an NCCL id");
  return *id;
}

}  // namespace

std::string meeting_place(const environment& here, const std::string& name) {
  static std::mutex guard;
  static std::set<std::string> used;
  const std::string place = "ddprun/nccl/" + std::to_string(here.round) + "/" +
                            (name.empty() ? "world" : "named/" + name);
  const std::lock_guard lock(guard);
  if (used.insert(place).second) return place;
  // An id is good for one communicator; a second join would wait for the others forever.
  throw environment_error(
      "this process has joined " +
      (name.empty() ? "the ranks of this round" : "the communicator '" + name + "'") +
      " before: a further communicator needs a name of its own, or split()");
}

std::vector<nccl_id> ids_to_meet(const environment& here, const communicator_options& options,
                                 const std::string& place, std::optional<store_client>& store,
                                 std::uint32_t version, const deadline& until) {
  const char* const given = std::getenv("DDPRUN_NCCL_IDS");
  const bool are_given = given != nullptr && *given != '\0';
  if (options.name.empty() && are_given) return read_nccl_ids(here, until, version);
  if (!store) {
    throw environment_error(
        are_given ? "the launcher serves no job store (--store agent) for the id of '" +
                        options.name + "': make it with split()"
                  : "there are no NCCL ids, and no job store for one: start this program with "
                    "ddprun --nccl-ids=on");
  }
  const std::string key = place + "/id";
  if (here.rank == 0) {
    const std::string offer = made_here(version);
    if (store->set(key, offer, until))
      throw environment_error("the NCCL id cannot be put into the job store: " + store->problem());
    return {read_offer(offer, version)};
  }
  const auto offer = store->get(key, until);
  if (!offer)
    throw environment_error("rank 0 has put no NCCL id into the job store: " + store->problem());
  return {read_offer(*offer, version)};
}

}  // namespace ddprun::worker
