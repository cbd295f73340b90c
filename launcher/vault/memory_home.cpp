#include "launcher/vault/memory_home.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/vault/open_below.hpp"
#include "launcher/vault/vault_files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::string_view owner_file = "owner";
constexpr std::string_view node_prefix = "node-";

// The user's ID is part of the name, so that users do not collide.
std::string own_prefix() {
  return "ddprun-vault-" + std::to_string(::geteuid()) + "-";
}

std::string read_owner(int file) {
  char text[4096];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  return got <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(got));
}

struct dead_home {
  unique_fd owner;  // locked by us
  std::string disk;
};

// None: the folder is another user's, or its agent lives.
std::optional<dead_home> lock_dead(const std::string& path) {
  struct stat facts = {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return std::nullopt;
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0) return std::nullopt;
  const auto folder = open_folder(path);
  if (!folder) return std::nullopt;
  auto owner = open_below(folder->get(), owner_file, O_RDWR);
  if (!owner || ::flock(owner->get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  // Another agent may have taken it over, and removed it, since it was opened.
  if (::fstat(owner->get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink == 0)
    return std::nullopt;
  std::string disk = read_owner(owner->get());
  if (!disk.ends_with('\n')) return std::nullopt;
  disk.pop_back();
  return dead_home{std::move(*owner), std::move(disk)};
}

}  // namespace

std::string node_folder(std::uint32_t group_rank) {
  return std::string(node_prefix) + std::to_string(group_rank);
}

std::optional<std::uint32_t> node_in(std::string_view folder) {
  if (!folder.starts_with(node_prefix)) return std::nullopt;
  return whole_number<std::uint32_t>(folder.substr(node_prefix.size()));
}

memory_home::memory_home(std::string path, unique_fd owner)
    : path_(std::move(path)), owner_(std::move(owner)) {}

memory_home memory_home::make(const std::string& place, std::string_view mark,
                              const std::string& disk, std::string& problem) {
  const std::string path = place + "/" + own_prefix() + std::string(mark);
  // It has another name until it is locked: otherwise it would look like a dead agent's.
  const std::string unlocked = place + "/.new-" + own_prefix() + std::string(mark);
  const auto fail = [&](const std::string& what) {
    problem = what + ": " + last_system_error().message();
    return memory_home();
  };
  if (::mkdir(unlocked.c_str(), 0700) != 0) return fail("cannot create a folder in " + place);
  const std::string name = unlocked + "/" + std::string(owner_file);
  unique_fd owner(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string text = disk + "\n";
  const bool is_made =
      owner && ::flock(owner.get(), LOCK_EX | LOCK_NB) == 0 &&
      ::write(owner.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::rename(unlocked.c_str(), path.c_str()) == 0;
  if (!is_made) {
    memory_home failed = fail("cannot create a vault in " + place);
    ::unlink(name.c_str());
    ::rmdir(unlocked.c_str());
    return failed;
  }
  return {path, std::move(owner)};
}

std::vector<memory_home> memory_home::take_dead(const std::string& place, const std::string& disk,
                                                std::vector<std::string>& others) {
  std::vector<memory_home> taken;
  for (const std::string& name : names_in(place)) {
    if (!name.starts_with(own_prefix())) continue;
    const std::string path = place + "/" + name;
    auto dead = lock_dead(path);
    if (!dead) continue;
    if (dead->disk == disk) {
      taken.push_back(memory_home(path, std::move(dead->owner)));
    } else {
      others.push_back(path + " (--vault " + dead->disk + ")");
    }
  }
  return taken;
}

void memory_home::remove() {
  if (!owner_) return;
  const std::size_t slash = path_.rfind('/');
  if (const auto place = open_folder(path_.substr(0, slash)))
    remove_below(place->get(), path_.substr(slash + 1));
  owner_.reset();
}

memory_facts look_at_memory(const std::string& place, std::string& problem) {
  memory_facts facts;
  struct statfs found = {};
  if (::statfs(place.c_str(), &found) != 0) {
    problem = place + ": " + last_system_error().message();
  } else if (found.f_type != TMPFS_MAGIC && found.f_type != RAMFS_MAGIC) {
    problem = place + " is not a file system in memory (tmpfs)";
  }
  const auto block = static_cast<std::uint64_t>(found.f_bsize);
  facts.size = block * found.f_blocks;
  facts.free = block * found.f_bavail;
  return facts;
}

}  // namespace ddprun::launcher::vault
