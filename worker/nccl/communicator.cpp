#include "worker/nccl/communicator.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "worker/nccl/communicator_meeting.hpp"
#include "worker/nccl/communicator_state.hpp"
#include "worker/own_gpu.hpp"
#include "worker/roll_call.hpp"
#include "worker/round_parts.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace ddprun::worker {
namespace {

std::string seconds_of(std::chrono::milliseconds limit) {
  return to_text(std::chrono::duration_cast<duration>(limit));
}

// Leaves `problem` empty if the device can be used.
int choose_device(std::optional<int> wanted, const environment& here, std::string& problem) {
  int visible = 0;
  const cudaError_t code = cudaGetDeviceCount(&visible);
  const std::string reason = code == cudaSuccess ? "" : cudaGetErrorString(code);
  const auto chosen =
      own_gpu(code == cudaSuccess ? visible : 0, here.local_rank, wanted, reason, problem);
  if (!chosen) return -1;
  if (const cudaError_t set = cudaSetDevice(*chosen); set != cudaSuccess)
    problem = "GPU " + std::to_string(*chosen) + ": " + cudaGetErrorString(set);
  return *chosen;
}

ncclResult_t begin(ncclComm_t& comm, std::uint32_t own_rank, std::uint32_t world_size,
                   const std::vector<nccl_id>& ids) {
  stay_in_round();
  std::vector<ncclUniqueId> given(ids.size());
  std::memcpy(given.data(), ids.data(), ids.size() * nccl_id_bytes);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const int ranks = static_cast<int>(world_size);
  const int rank = static_cast<int>(own_rank);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 4)
  if (given.size() > 1) {
    return ncclCommInitRankScalable(&comm, ranks, rank, static_cast<int>(given.size()),
                                    given.data(), &config);
  }
#endif
  // Before 2.23.4 all ranks meet at the first id.
  return ncclCommInitRankConfig(&comm, ranks, given.front(), rank, &config);
}

}  // namespace

communicator::communicator(std::unique_ptr<state> made) : state_(std::move(made)) {}
communicator::communicator(communicator&& other) noexcept = default;
communicator& communicator::operator=(communicator&& other) noexcept = default;
communicator::~communicator() = default;

std::uint32_t communicator::rank() const {
  return state_->rank;
}
std::uint32_t communicator::world_size() const {
  return state_->world_size;
}
int communicator::device() const {
  return state_->device;
}
std::uint32_t communicator::version() const {
  return state_->version;
}
ncclComm* communicator::native() const {
  return state_->comm;
}
void communicator::abort() noexcept {
  // NCCL still lists the communicator in its group, so grouped() aborts it after the group's end.
  if (state_->is_in_group)
    state_->is_to_abort = true;
  else
    state_->abort();
}

communicator communicator::join(const environment& here, const communicator_options& options) {
  const deadline until = options.join_timeout;
  auto made = std::make_unique<state>(options, here.rank, here.world_size);
  made->place = meeting_place(here, options.name);
  std::string problem;
  if (here.agent_store) {
    auto store = store_client::from_environment(here, until, problem);
    if (!store) made->refuse("join", "the job store cannot be reached: " + problem);
    made->store.emplace(std::move(*store));
  }
  const auto ids = ids_to_meet(here, options, made->place, made->store, made->version, until);
  const int device = choose_device(options.device, here, problem);
  if (!problem.empty()) made->refuse("join", problem);
  made->device = device;

  std::optional<roll_call> present;
  if (made->store) {
    present.emplace(*made->store, made->place + "/join", here.rank, here.world_size);
    present->answer(until);
  }
  const auto late = [&] {
    const std::string limit = seconds_of(options.join_timeout);
    const auto missing = present ? present->missing(roll_call::question_limit) : std::nullopt;
    if (missing && !missing->empty()) return "not joined within " + limit + ": " + *missing;
    return std::string(missing ? "all ranks have come" : "not joined") +
           (missing ? ", and are not connected within " : " within ") + limit + "; they meet at " +
           address_of(ids.front()) +
           ": NCCL_SOCKET_IFNAME chooses the interface, NCCL_DEBUG=INFO shows who reaches whom";
  };
  made->settle(begin(made->comm, here.rank, here.world_size, ids), "join", until, late);
  return communicator(std::move(made));
}

void communicator::wait(cuda_stream stream, const deadline& until) {
  state_->need_open("wait");
  state_->need_no_group("wait");
  look_again pause;
  while (true) {
    const cudaError_t code = cudaStreamQuery(stream);
    // A failed call of NCCL can end the stream's work early, so check before believing success.
    check();
    if (code == cudaSuccess) return;
    if (code != cudaErrorNotReady) {
      state_->fail("wait for " + state_->newest(),
                   std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code));
    }
    if (until.passed()) {
      state_->fail("wait for " + state_->newest(),
                   for_want_of_peer("not done in time" + state_->who_is_missing()));
    }
    pause();
  }
}

void communicator::check() {
  state_->need_open("check");
  state_->need_no_group("check");
  ncclResult_t code = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(state_->comm, &code);
  if (asked != ncclSuccess) code = asked;
  if (code != ncclSuccess && code != ncclInProgress) state_->fail(state_->newest(), code);
}

std::optional<communicator> communicator::split(std::optional<std::uint32_t> color,
                                                std::uint32_t key) {
  constexpr const char* what = "split";
  state_->need_open(what);
  state_->need_no_group(what);
  const deadline until = state_->options.join_timeout;
  constexpr auto most = static_cast<std::uint32_t>(std::numeric_limits<int>::max());
  if (color.value_or(0) > most || key > most)
    state_->refuse(what, "color and key are less than 2^31");
  const int wanted = color ? static_cast<int>(*color) : NCCL_SPLIT_NOCOLOR;
  const auto late = [this] { return "not done in time" + state_->who_is_missing(); };
  ++state_->calls;
  state_->newest_call = what;
  auto made = std::make_unique<state>(state_->options, state_->rank, state_->world_size);
  try {
    // ncclCommSplit reports success as soon as NCCL's thread has begun. That thread writes the new
    // communicator when it is done, so keep polling.
    ncclResult_t code =
        ncclCommSplit(state_->comm, wanted, static_cast<int>(key), &made->comm, nullptr);
    if (code == ncclSuccess) code = ncclInProgress;
    state_->settle(code, what, until, late);
  } catch (...) {
    // After an abort that was given up, NCCL's thread may still write to this memory: leak it.
    static_cast<void>(made.release());
    throw;
  }
  const std::uint32_t number = state_->splits++;
  if (!color) return std::nullopt;
  if (made->comm == nullptr) state_->fail(what, "NCCL returned no communicator");
  made->device = state_->device;
  made->store = state_->store;
  made->place = state_->place + "/" + std::to_string(number) + "/" + std::to_string(*color);
  made->settle(ncclInProgress, what, until, late);
  int rank = 0;
  int ranks = 0;
  if (ncclCommUserRank(made->comm, &rank) != ncclSuccess ||
      ncclCommCount(made->comm, &ranks) != ncclSuccess)
    made->fail(what, "NCCL does not report the new rank");
  made->rank = static_cast<std::uint32_t>(rank);
  made->world_size = static_cast<std::uint32_t>(ranks);
  return communicator(std::move(made));
}

void communicator::close(const deadline& until) {
  constexpr const char* what = "close";
  state_->need_open(what);
  state_->need_no_group(what);
  state_->settle(ncclCommFinalize(state_->comm), what, until,
                 [this] { return "not done in time" + state_->who_is_missing(); });
  const ncclResult_t code = ncclCommDestroy(std::exchange(state_->comm, nullptr));
  if (code != ncclSuccess) state_->refuse(what, ncclGetErrorString(code));
}

}  // namespace ddprun::worker
