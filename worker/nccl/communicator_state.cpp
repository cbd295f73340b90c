#include "worker/nccl/communicator_state.hpp"

#include "rendezvous/base/lost_peer.hpp"
#include "worker/nccl_version.hpp"
#include "worker/roll_call.hpp"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

namespace ddprun::worker {
namespace {

using namespace std::chrono_literals;

// True if NCCL's last error concerns the connection to another rank.
bool is_of_way(std::string_view last) {
  for (const std::string_view words :
       {"Connection refused", "Connection reset", "Connection closed", "Connection timed out",
        "Broken pipe", "remote process exited", "connect to", "Connect to"}) {
    if (last.find(words) != std::string_view::npos) return true;
  }
  return false;
}

constexpr auto pause_max = 500us;
// NCCL's own threads may hang if a device hangs.
constexpr auto abort_limit = 10s;

}  // namespace

thread_local const void* group_of_thread = nullptr;

void look_again::operator()() {
  std::this_thread::sleep_for(pause_);
  pause_ = std::min<duration>(pause_ * 2, pause_max);
}

communicator::state::state(communicator_options limits, std::uint32_t own_rank, std::uint32_t ranks)
    : options(limits), rank(own_rank), world_size(ranks) {
  int code = 0;
  if (ncclGetVersion(&code) == ncclSuccess) version = static_cast<std::uint32_t>(code);
}

std::string communicator::state::who() const {
  std::string text = "rank " + std::to_string(rank) + " of " + std::to_string(world_size) +
                     ", NCCL " + nccl_version_text(version);
  if (device >= 0) text += ", GPU " + std::to_string(device);
  return text;
}

std::string communicator::state::newest() const {
  if (calls == 0) return "nothing was enqueued";
  return newest_call + " (call " + std::to_string(calls) + ")";
}

void communicator::state::settle(ncclResult_t code, const std::string& what, const deadline& until,
                                 const std::function<std::string()>& late) {
  look_again pause;
  while (code == ncclInProgress) {
    if (until.passed()) fail(what, for_want_of_peer(late()));
    pause();
    ncclResult_t now = ncclInProgress;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &now);
    code = asked == ncclSuccess ? now : asked;
  }
  if (code != ncclSuccess) fail(what, code);
}

void communicator::state::enqueue(const std::string& what,
                                  const std::function<ncclResult_t()>& call) {
  need_open(what);
  if (group_of_thread != nullptr && group_of_thread != this)
    refuse(what, "this thread is in a group of another communicator");
  ++calls;
  newest_call = what;
  const deadline until = options.call_timeout;
  const ncclResult_t code = call();
  if (is_in_group) {
    // grouped() must end the group before the communicator is aborted.
    if (code != ncclSuccess && code != ncclInProgress) refuse(newest(), reason_of(code));
    return;
  }
  settle(code, newest(), until, [this] { return "still not enqueued" + who_is_missing(); });
}

void communicator::state::need_open(const std::string& what) const {
  if (comm == nullptr) refuse(what, "the communicator is closed");
}

void communicator::state::need_no_group(const std::string& what) const {
  if (group_of_thread != nullptr) refuse(what, "not allowed within a group");
}

int communicator::state::need_rank(const std::string& what, std::uint32_t other) const {
  if (other >= world_size) refuse(what, "there is no rank " + std::to_string(other));
  return static_cast<int>(other);
}

void communicator::state::refuse(const std::string& what, const std::string& why) const {
  throw nccl_error(who() + ": " + what + ": " + why);
}

std::string communicator::state::reason_of(ncclResult_t code) const {
  std::string why = ncclGetErrorString(code);
  bool is_of_peer = code == ncclRemoteError;
  const char* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') {
    const std::string_view text = last;
    why += ": " + std::string(text.substr(0, text.find('\n')));
    is_of_peer = is_of_peer || (code == ncclSystemError && is_of_way(text));
  } else if (std::getenv("NCCL_DEBUG") == nullptr) {
    why += "; NCCL_DEBUG=WARN says more";
  }
  return is_of_peer ? for_want_of_peer(std::move(why)) : why;
}

void communicator::state::fail(const std::string& what, ncclResult_t code) {
  fail(what, reason_of(code));
}

void communicator::state::fail(const std::string& what, const std::string& why) {
  const nccl_error error(who() + ": " + what + ": " + why);
  abort();
  throw error;
}

void communicator::state::abort() noexcept {
  if (comm == nullptr) return;
  // Abort on another thread: a rank that cannot even stop its kernels must still report its error.
  const ncclComm_t over = std::exchange(comm, nullptr);
  try {
    auto done = std::make_shared<std::promise<void>>();
    auto ended = done->get_future();
    std::thread([over, done] {
      ncclCommAbort(over);
      done->set_value();
    }).detach();
    ended.wait_for(abort_limit);
  } catch (const std::exception&) {  // there is no thread to be had
    ncclCommAbort(over);
  }
}

std::string communicator::state::who_is_missing() {
  if (!store) return "";
  const std::string here = place + "/late/" + std::to_string(calls);
  roll_call late(*store, here, rank, world_size);
  const auto missing = late.who_is_late();
  if (!missing) return "";
  if (missing->empty()) return "; all ranks wait for it: NCCL_DEBUG=INFO shows who reaches whom";
  return "; " + *missing + " to this call (in a wait of their own, or not at all)";
}

}  // namespace ddprun::worker
