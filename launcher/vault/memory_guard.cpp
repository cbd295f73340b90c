#include "launcher/vault/memory_guard.hpp"

#include "launcher/base/size_text.hpp"
#include "launcher/vault/open_below.hpp"

#include <algorithm>
#include <fcntl.h>
#include <limits>
#include <set>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

using namespace std::chrono_literals;

constexpr auto memory_interval = 5s;
constexpr auto rest_min = 50ms;
constexpr auto rest_max = 500ms;
// The fastest that workers write, in bytes: a sleep must end before they can fill the room.
constexpr std::uint64_t written_per_ms = 4'000'000;

// A note beside the entries is no part of one, takes a page at most, and says what a failure counts
// against.
bool is_resumed_note(const found_file& one) {
  return one.path.substr(one.path.rfind('/') + 1) == resumed_note;
}

}  // namespace

std::vector<found_file> to_hollow(const std::vector<found_file>& found, std::uint64_t limit) {
  std::set<std::string> whole;
  for (const entry& one : complete_entries(found)) {
    if (!one.problem.empty()) continue;
    for (const found_file& file : one.files)
      whole.insert(file.path);
  }
  std::uint64_t occupied = occupied_by(found);
  std::vector<found_file> chosen, written;
  for (const found_file& one : found) {
    if (one.kind != file_kind::regular || one.occupied == 0 || whole.contains(one.path)) continue;
    if (is_resumed_note(one)) continue;
    if (!one.is_hollow) {
      written.push_back(one);
      continue;
    }
    // Hollow files are chosen in any case: their writers go on and occupy new pages.
    chosen.push_back(one);
    occupied -= std::min(occupied, one.occupied);
  }
  std::sort(written.begin(), written.end(), [](const found_file& one, const found_file& other) {
    return one.occupied > other.occupied;
  });
  for (const found_file& one : written) {
    if (occupied <= limit) break;
    chosen.push_back(one);
    occupied -= std::min(occupied, one.occupied);
  }
  return chosen;
}

bool make_hollow(int memory, const found_file& file) {
  const auto opened = open_below(memory, file.path, O_RDWR);
  struct stat facts = {};
  if (!opened || ::fstat(opened->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  // The mark comes first: without it a file of holes would look like saved data.
  if (::fchmod(opened->get(), (facts.st_mode & 07777) | S_ISVTX) != 0) return false;
  if (facts.st_size == 0) return true;
  return ::fallocate(opened->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, facts.st_size) ==
         0;
}

void remove_hollow(int memory) {
  const std::vector<found_file> found = list_files(memory);
  const auto is_hollow = [](const found_file& one) { return one.is_hollow; };
  for (const entry& one : complete_entries(found)) {
    if (std::any_of(one.files.begin(), one.files.end(), is_hollow))
      remove_entry(memory, one.what.name);
  }
  for (const found_file& one : found) {
    if (one.is_hollow) remove_below(memory, one.path);
  }
}

void memory_guard::run() {
  auto rest = std::chrono::milliseconds(rest_max);
  while (true) {
    std::shared_ptr<const shelf> here;
    {
      std::unique_lock lock(desk_.mutex);
      desk_.changed.wait_for(lock, rest, [&] { return desk_.is_abandoned || desk_.is_over; });
      if (desk_.is_abandoned || desk_.is_over) return;
      here = desk_.current;
    }
    rest = here ? look(*here) : rest_max;
  }
}

std::uint64_t memory_guard::limit_now(const shelf& here, std::uint64_t occupied) {
  const auto now = std::chrono::steady_clock::now();
  if (now >= look_at_memory_) {
    left_ = desk_.memory_left().value_or(std::numeric_limits<std::uint64_t>::max());
    look_at_memory_ = now + memory_interval;
  }
  struct statfs facts = {};
  std::uint64_t left = left_;
  if (::statfs(here.memory.c_str(), &facts) == 0)
    left =
        std::min<std::uint64_t>(left, facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize));
  // Leaves a reserve, because other programs take memory between two looks, too.
  left -= left / 8;
  return left >= desk_.limit ? desk_.limit : std::min(desk_.limit, occupied + left);
}

std::chrono::milliseconds memory_guard::look(const shelf& here) {
  const auto memory = open_folder(here.memory);
  if (!memory) return rest_max;  // a worker has removed it
  std::vector<found_file> found = list_files(memory->get());
  const std::uint64_t limit = limit_now(here, occupied_by(found));
  std::vector<entry> complete = complete_entries(found);
  for (const entry& one : complete) {
    const bool is_hollow = std::any_of(one.files.begin(), one.files.end(),
                                       [](const found_file& file) { return file.is_hollow; });
    if (is_hollow) remove_entry(memory->get(), one.what.name);
  }
  std::erase_if(complete, [](const entry& one) { return !one.problem.empty(); });
  for (const version& old : to_drop(complete, occupied_by(found), limit))
    remove_entry(memory->get(), old.name);
  if (occupied_by(found) > limit) found = list_files(memory->get());
  std::string too_large;
  for (const found_file& one : to_hollow(found, limit)) {
    if (make_hollow(memory->get(), one) && !one.is_hollow && too_large.empty())
      too_large = one.path;
  }
  const std::uint64_t occupied = occupied_by(list_files(memory->get()));
  if (!too_large.empty() && !std::exchange(is_told_, true)) {
    desk_.tell(note_level::warning,
               too_large + " does not fit into the " + size_text(limit) +
                   " that the vault may take (--vault-size): it is not kept, the newest whole "
                   "entry is, and training goes on");
  } else if (occupied > limit && !std::exchange(is_told_, true)) {
    desk_.tell(note_level::warning, "it holds more than the " + size_text(limit) +
                                        " that it may take (--vault-size): save less, or keep "
                                        "fewer");
  } else if (occupied < limit / 2) {
    is_told_ = false;
  }
  const std::uint64_t room = limit - std::min(limit, occupied);
  return std::clamp<std::chrono::milliseconds>(std::chrono::milliseconds(room / written_per_ms),
                                               rest_min, rest_max);
}

}  // namespace ddprun::launcher::vault
