#include "launcher/vault/buddy_copying.hpp"

#include "launcher/vault/due_at.hpp"

#include <sys/resource.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto look_again_interval = 1s;
constexpr auto retry_copy_interval = 30s;
constexpr auto retry_word_interval = 2s;
constexpr int low_sending_priority = 10;

}  // namespace

void buddy_copying::run() {
  ::setpriority(PRIO_PROCESS, 0,
                low_sending_priority);  // Linux applies it to the calling thread only
  while (true) {
    std::optional<peer> buddy;
    std::optional<std::uint32_t> saver;
    std::shared_ptr<const outgoing> next;
    {
      std::unique_lock lock(desk_.mutex);
      desk_.changed.wait_for(lock, look_again_interval, [&] { return is_over() || has_work(); });
      if (is_over()) return;
      if (!has_work()) continue;
      buddy = desk_.buddy;
      saver = desk_.own_saver;
      next = desk_.to_send;
    }
    if (saver) tell_saver_at(*buddy, *saver);
    if (next) copy(*buddy, *next);
  }
}

// Needs the mutex.
bool buddy_copying::has_work() const {
  if (!desk_.buddy) return false;
  const auto now = std::chrono::steady_clock::now();
  if (desk_.own_saver && now >= tell_again_ && told_ != std::pair(*desk_.buddy, *desk_.own_saver))
    return true;
  if (!desk_.to_send || now < try_again_) return false;
  const owned_version newest = desk_.to_send->which();
  return copied_ != std::pair(*desk_.buddy, newest) && !desk_.set_aside.contains(newest);
}

// The buddy is told long before there is a copy. If this node is lost before its first copy, no
// other may take it for a node that has never saved.
void buddy_copying::tell_saver_at(const peer& buddy, std::uint32_t of) {
  const auto now = std::chrono::steady_clock::now();
  if (told_ == std::pair(buddy, of) || now < tell_again_) return;
  if (tell_saver(buddy, of).is_done()) {
    told_ = {buddy, of};
  } else {
    tell_again_ = now + retry_word_interval;
  }
}

pace buddy_copying::slowly(const peer& buddy, const outgoing& one) {
  const auto begun = std::chrono::steady_clock::now();
  return [this, &buddy, &one, begun, copied = std::uint64_t{0}](std::uint64_t bytes) mutable {
    copied += bytes;
    const auto due = due_at(begun, copied, desk_.wanted.rate);
    const auto is_unwanted = [&] {
      const bool is_of_this_node = desk_.to_send && desk_.to_send->group_rank == one.group_rank;
      return is_over() || !is_of_this_node || desk_.buddy != buddy ||
             desk_.set_aside.contains(one.which());
    };
    std::unique_lock lock(desk_.mutex);
    return !desk_.changed.wait_until(lock, due, is_unwanted);
  };
}

void buddy_copying::copy(const peer& buddy, const outgoing& one) {
  const auto now = std::chrono::steady_clock::now();
  if (now < try_again_ || copied_ == std::pair(buddy, one.which())) return;
  const std::string& name = one.newest.what.name;
  const std::string where = "node " + std::to_string(buddy.group_rank);
  const auto from = from_here(one);
  const outcome done = !from ? outcome{.problem = "it was removed meanwhile", .has_changed = true}
                             : put_entry(buddy, one.group_rank, *from, slowly(buddy, one));
  if (done.has_changed || done.is_abandoned) {
    // The entry was replaced, so a newer one may be there soon.
    try_again_ = now + look_again_interval;
    return;
  }
  if (done.is_done()) {
    copied_ = {buddy, one.which()};
    desk_.tell_once("buddy", "");
    return desk_.tell(note_level::debug, name + " is copied to " + where + ", too");
  }
  try_again_ = now + retry_copy_interval;
  desk_.tell_once("buddy", "cannot copy " + name + " to " + where + ": " + done.problem +
                               "; training goes on, and it is tried again");
}

// The copy on disk is preferred, because workers do not change it.
std::optional<sent_entry> buddy_copying::from_here(const outgoing& one) const {
  if (!one.disk.empty()) {
    auto kept = from_disk(one.disk + "/" + folder_of(one.newest.what));
    if (kept && kept->what == one.newest.what) return kept;
  }
  auto memory = open_folder(one.memory);
  if (!memory) return std::nullopt;
  return from_memory(std::move(*memory), one.newest);
}

}  // namespace ddprun::launcher::vault
