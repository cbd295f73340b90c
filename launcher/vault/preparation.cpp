#include "launcher/vault/preparation.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/size_text.hpp"
#include "launcher/base/write_all.hpp"
#include "launcher/vault/memory_guard.hpp"
#include "launcher/vault/open_below.hpp"
#include "launcher/vault/restoring.hpp"
#include "launcher/vault/vault_files.hpp"
#include "rendezvous/base/private_folders.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

// The node that had this group rank before releases the lock as soon as it has heard of the new
// round and has finished its copy.
constexpr auto lock_limit = std::chrono::seconds(10);
constexpr auto lock_interval = std::chrono::milliseconds(20);
constexpr std::uint64_t least_limit = 1 << 20;

// For an agent that takes over this one's memory: without the record, the origin of the entries
// would be unknown.
void write_origins(const std::string& home, const origin_record& record) {
  const std::string name = home + "/" + std::string(origins_file);
  const std::string unfinished = name + ".new";
  const unique_fd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file && write_all(file.get(), to_text(record)) == 0)
    ::rename(unfinished.c_str(), name.c_str());
}

origin_record read_origins(const std::string& home) {
  return parse_origins(whole_text(home + "/" + std::string(origins_file)));
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<entry> preparation::complete(std::uint32_t of, int memory) {
  std::vector<entry> found = complete_entries(list_files(memory));
  std::erase_if(found, [&](const entry& one) {
    return !one.problem.empty() || desk_.is_set_aside({of, one.what});
  });
  for (entry& one : found)
    one.from = desk_.origin_of({of, one.what});
  return found;
}

std::string preparation::run(const round_place& place, bool has_failed, std::uint64_t ticket) {
  const std::uint32_t group_rank = place.group_rank;
  ticket_ = ticket;
  if (!std::exchange(is_home_made_, true)) make_home();
  if (home_.empty()) {
    go_without_memory(place);
    return {};
  }
  note_origins(place.from);
  std::shared_ptr<const shelf> here;
  {
    const std::lock_guard lock(desk_.mutex);
    here = desk_.current;
  }
  // With the same group rank, the folder in memory has all that this node saved.
  looks_at_disk_ = !here || here->group_rank != group_rank;
  if (looks_at_disk_) {
    here.reset();
    auto made = std::make_shared<shelf>();
    made->group_rank = group_rank;
    enter(*made);
    if (made->memory.empty()) return {};
    here = std::move(made);
  }
  const auto memory = open_folder(here->memory);
  if (!memory) {
    desk_.tell_once("memory", "cannot open " + here->memory + ": " + memory.error().message());
    return {};
  }
  // No worker is alive here, so the writers of hollow files are gone.
  remove_hollow(memory->get());
  if (has_failed) set_aside(*here, memory->get());
  // Setting aside may have hung on the disk: then workers run without this, and the notes are
  // theirs.
  if (desk_.ticket != ticket_) return {};
  clear_resumed_notes(memory->get());
  const bool is_agreed = place.is_together && take_common(place, *here, memory->get());
  // The round was given up meanwhile, and a newer preparation owns the folder now.
  if (desk_.ticket != ticket_) return {};
  const bool is_empty = complete(group_rank, memory->get()).empty();
  // Without an agreement this node goes on from its own newest entry.
  if (!is_agreed && (looks_at_disk_ || is_empty) && !here->disk.empty())
    put_back(*here, memory->get());
  const std::vector<entry> now = complete(group_rank, memory->get());
  trial_.begin(now.empty() ? std::nullopt : std::optional(now.back().what));

  const std::lock_guard lock(desk_.mutex);
  // From here on the copying thread looks at this folder.
  if (desk_.ticket == ticket_) desk_.current = here;
  desk_.changed.notify_all();
  return here->memory;
}

void preparation::make_home() {
  const vault_options& wanted = desk_.wanted;
  std::string problem;
  memory_facts facts = look_at_memory(wanted.memory, problem);
  if (problem.empty()) {
    facts.left = desk_.memory_left();
    const budget allowed = budget_for(wanted.size, facts);
    desk_.limit = allowed.limit;
    if (allowed.is_less_than_asked) {
      desk_.tell(note_level::warning, "--vault-size " + size_text(wanted.size) +
                                          " is more than is free in " + wanted.memory +
                                          " and in this node's memory: it may take " +
                                          size_text(allowed.limit));
    }
    if (allowed.limit < least_limit)
      problem =
          "too little memory is free in " + wanted.memory + " (" + size_text(facts.free) + ")";
  }
  if (problem.empty()) {
    memory_home made = memory_home::make(wanted.memory, desk_.mark, wanted.disk, problem);
    home_ = made.path();
    const std::lock_guard lock(desk_.mutex);
    desk_.home = std::move(made);
  }
  if (home_.empty()) {
    return desk_.tell(note_level::warning, "there is none: " + problem +
                                               " (--vault-memory FOLDER names another); "
                                               "workers are started without DDPRUN_VAULT");
  }
  save_what_is_left();
}

// After an agent was killed, its workers' files are still in memory.
void preparation::save_what_is_left() {
  std::vector<std::string> others;
  for (memory_home& left : memory_home::take_dead(desk_.wanted.memory, desk_.wanted.disk, others)) {
    if (save_home(left)) left.remove();
  }
  for (const std::string& other : others) {
    desk_.tell(note_level::info, "a ddprun that died has left " + other +
                                     "; it is taken over when that job is started again here, or "
                                     "can be removed");
  }
}

// Call it between two rounds, when no worker is alive.
void preparation::note_origins(const origin& from) {
  std::vector<owned_version> in_memory;
  for (const std::string& name : names_in(home_)) {
    const auto of = node_in(name);
    const auto memory = of ? open_folder(home_ + "/" + name) : unique_fd();
    if (!of || !memory) continue;
    for (const entry& one : complete_entries(list_files(memory->get())))
      in_memory.push_back({*of, one.what});
  }
  origin_record noted;
  noted.now = from;
  {
    const std::lock_guard lock(desk_.mutex);
    for (const owned_version& one : in_memory)
      noted.known[one] = desk_.origins.of(one);
    desk_.origins = noted;
  }
  if (from.is_known()) write_origins(home_, noted);
}

bool preparation::save_home(const memory_home& left) {
  const origin_record origins = read_origins(left.path());
  for (const std::string& node : names_in(left.path())) {
    const auto of = node_in(node);
    if (!of) continue;
    const auto memory = open_folder(left.path() + "/" + node);
    if (!memory) continue;
    std::vector<entry> found = complete(*of, memory->get());
    if (found.size() > vault::put_back)
      found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(vault::put_back));
    const std::string disk = desk_.wanted.disk + "/" + node;
    if (!found.empty()) make_private_folders(disk);
    const std::vector<std::string> kept = kept_folders(disk);
    for (entry& one : found) {
      if (std::find(kept.begin(), kept.end(), folder_of(one.what)) != kept.end()) continue;
      one.from = origins.of({*of, one.what});
      const outcome done =
          keep_on_disk(memory->get(), one, disk, "of-" + desk_.mark, [&](std::uint64_t bytes) {
            desk_.note_moved(bytes);
            return true;
          });
      if (!done.is_done()) {
        desk_.tell(note_level::warning, "cannot copy " + one.what.name +
                                            ", which a ddprun that died has left, to " + disk +
                                            ": " + done.problem + "; it stays in " + left.path());
        return false;
      }
      desk_.tell(
          note_level::info,
          one.what.name + ", which a ddprun that died has left in memory, is saved to " + disk);
    }
  }
  return true;
}

void preparation::enter(shelf& made) {
  {
    // The copying thread releases the lock of the old shelf when its copy is done.
    const std::lock_guard lock(desk_.mutex);
    desk_.current.reset();
    desk_.folder.clear();
    desk_.changed.notify_all();
  }
  const std::string memory = home_ + "/" + node_folder(made.group_rank);
  if (const error_code error = make_private_folders(memory)) {
    return desk_.tell_once("memory", "cannot create " + memory + ": " + error.message());
  }
  made.memory = memory;
  {
    const std::lock_guard lock(desk_.mutex);
    if (desk_.ticket == ticket_) desk_.folder = memory;
  }
  enter_disk(made);
}

void preparation::enter_disk(shelf& made) {
  const std::string disk = desk_.wanted.disk + "/" + node_folder(made.group_rank);
  made.lock = lock_disk(disk);
  if (!made.lock) return;
  made.disk = disk;
  remove_unfinished(disk);
}

unique_fd preparation::lock_disk(const std::string& disk) {
  const auto fail = [&](const std::string& why) {
    desk_.tell_once("disk", "nothing is copied to " + disk + ", or put back from there: " + why);
    return unique_fd();
  };
  if (const error_code error = make_private_folders(disk)) return fail(error.message());
  unique_fd lock(
      ::open((disk + "/.lock").c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock) return fail(last_system_error().message());
  const auto until = std::chrono::steady_clock::now() + lock_limit;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      break;  // no locks on this file system: they only detect two jobs with one folder
    if (std::chrono::steady_clock::now() >= until || desk_.ticket != ticket_)
      return fail("another ddprun uses it (each job needs a --vault of its own)");
    ++desk_.progress;
    std::this_thread::sleep_for(lock_interval);
  }
  desk_.tell_once("disk", "");
  return lock;
}

pace preparation::while_wanted() {
  return [this](std::uint64_t bytes) {
    desk_.note_moved(bytes);
    return desk_.ticket == ticket_;
  };
}

void preparation::set_aside(const shelf& here, int memory) {
  const std::vector<entry> found = complete(here.group_rank, memory);
  const auto newest = found.empty() ? std::nullopt : std::optional(found.back().what);
  const bool has_resumed = newest && was_resumed(*newest, read_resumed_note(memory, *newest));
  const auto bad = trial_.fail(newest, has_resumed);
  if (!bad) return;
  const std::vector<std::string> kept =
      here.disk.empty() ? std::vector<std::string>() : kept_folders(here.disk);
  const bool is_kept = std::find(kept.begin(), kept.end(), folder_of(*bad)) != kept.end();
  // The last entry stays: starting from nothing would be no better.
  if (found.size() < 2 && kept.size() < (is_kept ? 2u : 1u)) return;
  const bool is_copied =
      is_kept || (!here.disk.empty() && keep_on_disk(memory, found.back(), here.disk,
                                                     "aside-" + desk_.mark, while_wanted())
                                            .is_done());
  if (!is_copied || !set_aside_on_disk(here.disk, *bad)) {
    return desk_.tell(note_level::warning,
                      bad->name + " is not set aside, though " +
                          std::to_string(failures_to_distrust) +
                          " rounds have failed from there: it cannot be copied to " +
                          (here.disk.empty() ? desk_.wanted.disk : here.disk));
  }
  {
    const std::lock_guard lock(desk_.mutex);
    desk_.set_aside.insert({here.group_rank, *bad});
  }
  remove_entry(memory, bad->name);
  looks_at_disk_ = true;
  desk_.tell(note_level::warning,
             bad->name + " is set aside, in " + here.disk + ": " +
                 std::to_string(failures_to_distrust) +
                 " rounds in a row have failed from there without a newer one");
}

void preparation::put_back(const shelf& here, int memory) {
  for (const std::string& name : kept_folders(here.disk)) {
    const std::vector<entry> found = complete(here.group_rank, memory);
    const auto newer =
        static_cast<std::size_t>(std::count_if(found.begin(), found.end(), [&](const entry& one) {
          return one.what.order > *order_in(name);
        }));
    // Older entries are not needed once enough newer ones are in memory.
    if (newer >= vault::put_back || desk_.ticket != ticket_) return;
    put_one_back(here, memory, name);
  }
}

void preparation::note_origin(const owned_version& which, const origin& from) {
  const std::lock_guard lock(desk_.mutex);
  desk_.origins.known[which] = from;
}

void preparation::put_one_back(const shelf& here, int memory, const std::string& name) {
  const std::string kept = here.disk + "/" + name;
  const auto wanted = read_manifest(kept);
  if (!wanted) {
    desk_.tell(note_level::warning,
               kept + " is damaged (its manifest): the one before it is taken");
    return;
  }
  const std::vector<found_file> files = list_files(memory);
  for (const entry& one : complete_entries(files)) {
    // Memory already has this entry, or a newer one of its name.
    if (one.what.name == wanted->what.name && one.what.order >= wanted->what.order) return;
  }
  std::uint64_t size = 0;
  for (const kept_file& one : wanted->files)
    size += one.size;
  // Restoring it would make the memory guard remove something else.
  if (occupied_by(files) + size > desk_.limit) {
    desk_.tell(note_level::warning, wanted->what.name + " (" + size_text(size) +
                                        ") is not put back: the vault may take " +
                                        size_text(desk_.limit) + " (--vault-size)");
    return;
  }
  restoring told(desk_, wanted->what.name, here.disk);
  told.begin(size);
  const outcome done = put_back_from(kept, *wanted, memory, [&](std::uint64_t bytes) {
    told.add(bytes);
    return while_wanted()(bytes);
  });
  if (done.is_done()) note_origin({here.group_rank, wanted->what}, wanted->from);
  if (done.is_abandoned) return;
  if (!done.is_done()) {
    desk_.tell(note_level::warning,
               kept + (done.is_damaged ? " is damaged (" : " cannot be put back (") + done.problem +
                   "): the one before it is taken");
    return;
  }
  if (wanted->what.order > now_ns()) {
    desk_.tell_once("clock",
                    wanted->what.name +
                        " was saved in the future, by this node's clock: what is saved now "
                        "looks older (set the clock)");
  }
  desk_.tell(note_level::info,
             wanted->what.name + " (" + size_text(size) + ") is put back from " + here.disk);
}

}  // namespace ddprun::launcher::vault
