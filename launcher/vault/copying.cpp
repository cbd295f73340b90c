#include "launcher/vault/copying.hpp"

#include "launcher/base/size_text.hpp"
#include "launcher/vault/due_at.hpp"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 1s;
constexpr auto retry_interval = 30s;
// A worker that is still writing may be killed between two tries, after which the files stay as
// they are.
constexpr int tries_in_a_hurry = 5;
constexpr int low_priority = 10;

}  // namespace

void copying::run() {
  ::setpriority(PRIO_PROCESS, 0, low_priority);  // Linux applies it to the calling thread only
  while (true) {
    std::shared_ptr<const shelf> next;
    std::uint64_t hurries = 0;
    bool is_ending = false;
    {
      std::unique_lock lock(desk_.mutex);
      desk_.changed.wait_for(lock, look_interval, [&] {
        return desk_.is_hurried() || desk_.is_abandoned || desk_.current != here_;
      });
      if (desk_.is_abandoned) return;
      next = desk_.current;
      hurries = desk_.hurries_asked;
      is_ending = desk_.is_ending;
    }
    // The old shelf gets a last look before the new one replaces it.
    const bool is_kept = look();
    if (next != here_) {
      is_all_kept_ = is_all_kept_ && is_kept;
      enter(std::move(next));
      continue;
    }
    if (is_ending) return end(is_kept && is_all_kept_);
    const std::lock_guard lock(desk_.mutex);
    desk_.hurries_done = std::max(desk_.hurries_done, hurries);
  }
}

void copying::note_saver() {
  const std::lock_guard lock(desk_.mutex);
  if (desk_.own_saver == here_->group_rank || desk_.current != here_) return;
  desk_.own_saver = here_->group_rank;
  desk_.changed.notify_all();
}

void copying::enter(std::shared_ptr<const shelf> next) {
  {
    const std::lock_guard lock(desk_.mutex);
    desk_.own_saver.reset();
    desk_.to_send.reset();
    desk_.changed.notify_all();
  }
  here_ = std::move(next);
  failed_.reset();
  on_disk_.clear();
  if (!here_ || here_->disk.empty()) return;
  for (std::string& name : kept_folders(here_->disk))
    on_disk_.insert(std::move(name));
}

bool copying::look() {
  if (!here_) return true;
  const auto memory = open_folder(here_->memory);
  if (!memory) return true;  // a worker has removed it
  for (int tries = 0; tries < tries_in_a_hurry; ++tries) {
    std::vector<found_file> found = list_files(memory->get());
    // It has saved, though what it has is not complete by itself.
    if (!folders_of_parts(found).empty() && is_among_nodes()) note_saver();
    std::vector<entry> complete = complete_entries(std::move(found));
    std::erase_if(complete, [&](const entry& one) { return is_set_aside(one.what); });
    for (const entry& one : complete) {
      if (!one.problem.empty())
        desk_.tell_once("entry", one.what.name + " is not kept: " + one.problem);
    }
    std::erase_if(complete, [](const entry& one) { return !one.problem.empty(); });
    if (complete.empty()) return true;
    bool has_saved = false;
    for (entry& one : complete) {
      one.from = desk_.origin_of({here_->group_rank, one.what});
      has_saved = has_saved || one.from.has_part_of(here_->group_rank);
    }
    if (has_saved) note_saver();
    if (here_->disk.empty()) {
      leave_to_buddy(complete.back());
      return false;
    }
    if (on_disk_.contains(folder_of(complete.back().what)) ||
        keep(memory->get(), complete.back())) {
      leave_to_buddy(complete.back());
      return true;
    }
    // The buddy's disk may take it even if ours does not.
    if (failed_ == complete.back().what) leave_to_buddy(complete.back());
    const std::lock_guard lock(desk_.mutex);
    // In a hurry, the files changed while they were copied: look at them again at once.
    if (failed_ || !desk_.is_hurried()) return false;
  }
  return false;
}

bool copying::is_among_nodes() const {
  const std::lock_guard lock(desk_.mutex);
  return desk_.origins.now.nodes > 1;
}

bool copying::is_set_aside(const version& what) const {
  return desk_.is_set_aside({here_->group_rank, what});
}

// While workers run, a copy uses only its share of the bandwidth of memory and disk.
pace copying::slowly(const version& what) {
  const auto begun = std::chrono::steady_clock::now();
  return [this, what, begun, copied = std::uint64_t{0}](std::uint64_t bytes) mutable {
    ++desk_.progress;
    if (is_set_aside(what)) return false;
    copied += bytes;
    const auto due = due_at(begun, copied, desk_.wanted.rate);
    std::unique_lock lock(desk_.mutex);
    desk_.changed.wait_until(lock, due, [&] {
      return desk_.is_hurried() || desk_.is_abandoned || desk_.current != here_;
    });
    return !desk_.is_abandoned;
  };
}

bool copying::keep(int memory, const entry& newest) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(desk_.mutex);
    if (failed_ == newest.what && now < try_again_ && !desk_.is_hurried()) return false;
  }
  failed_.reset();
  const outcome done = keep_on_disk(memory, newest, here_->disk, desk_.mark, slowly(newest.what));
  // It may have been set aside while it was renamed.
  if (is_set_aside(newest.what)) {
    set_aside_on_disk(here_->disk, newest.what);
    return false;
  }
  if (done.has_changed) return false;
  if (!done.is_done()) {
    failed_ = newest.what;
    try_again_ = now + retry_interval;
    desk_.tell_once("copy", "cannot copy " + newest.what.name + " to " + here_->disk + ": " +
                                done.problem + "; training goes on, and it is tried again");
    return false;
  }
  desk_.tell_once("copy", {});
  on_disk_.insert(folder_of(newest.what));
  remove_older(here_->disk, kept_on_disk);
  desk_.tell(note_level::debug,
             newest.what.name + " (" + size_text(newest.size) + ") is copied to " + here_->disk);
  return true;
}

void copying::leave_to_buddy(const entry& newest) {
  const std::lock_guard lock(desk_.mutex);
  if (desk_.current != here_) return;
  const owned_version which{here_->group_rank, newest.what};
  // The sending thread has it already.
  if (desk_.to_send && desk_.to_send->which() == which) return;
  desk_.to_send = std::make_shared<const outgoing>(
      outgoing{here_->group_rank, here_->memory, here_->disk, newest});
  desk_.changed.notify_all();
}

void copying::end(bool is_kept) {
  memory_home home;
  bool ends_well = false;
  {
    const std::lock_guard lock(desk_.mutex);
    home = std::move(desk_.home);
    ends_well = desk_.ends_well;
  }
  if (is_kept || ends_well) {
    home.remove();
  } else {
    desk_.tell(note_level::warning, "what the workers saved last is not in " + desk_.wanted.disk +
                                        " and stays in " + home.path() +
                                        ": start the job again on this node to take it over");
  }
  here_.reset();
  const std::lock_guard lock(desk_.mutex);
  desk_.is_over = true;
  desk_.changed.notify_all();
}

}  // namespace ddprun::launcher::vault
