// Folders and their contents; vault_copies.cpp has the copies.
#include "launcher/vault/vault_files.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/vault/open_below.hpp"

#include <algorithm>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr int depth_max = 12;
constexpr std::size_t files_max = 100'000;
constexpr std::string_view aside_prefix = "set-aside-";
constexpr std::string_view hidden_prefix = "not-everywhere-";
constexpr std::size_t note_bytes_max = 4096;
// The manifests of set-aside entries outlive the files, so that a copy elsewhere cannot bring an
// entry back.
constexpr std::size_t known_aside = 64;

struct close_stream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

found_file describe(std::string path, const struct stat& facts) {
  found_file one;
  one.path = std::move(path);
  one.kind = S_ISREG(facts.st_mode)   ? file_kind::regular
             : S_ISDIR(facts.st_mode) ? file_kind::folder
                                      : file_kind::strange;
  one.size = S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  one.occupied = static_cast<std::uint64_t>(facts.st_blocks) * 512;
  one.modified_ns = modified_ns(facts);
  one.is_hollow = S_ISREG(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0;
  return one;
}

void list_into(std::vector<found_file>& found, unique_fd folder, const std::string& prefix,
               int depth) {
  const std::unique_ptr<DIR, close_stream> stream(::fdopendir(folder.get()));
  if (!stream) return;
  const int at = folder.release();  // owned by the stream from now on
  while (const dirent* const each = ::readdir(stream.get())) {
    const std::string name = each->d_name;
    if (name == "." || name == "..") continue;
    if (found.size() >= files_max) return;
    struct stat facts = {};
    if (::fstatat(at, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.push_back(describe(prefix + name, facts));
    if (!S_ISDIR(facts.st_mode) || depth >= depth_max) continue;
    unique_fd below(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (below) list_into(found, std::move(below), prefix + name + "/", depth + 1);
  }
}

// Removes old entries with that prefix; the newest `whole` keep their files.
void remove_old_asides(const std::string& disk, int folder, std::string_view prefix,
                       std::size_t whole) {
  std::vector<std::string> names = names_in(disk);
  std::erase_if(names, [&](const std::string& one) { return !one.starts_with(prefix); });
  std::sort(names.begin(), names.end(), std::greater<>());
  for (std::size_t index = whole; index < names.size(); ++index) {
    const bool is_known = index < known_aside;
    remove_below(folder, names[index] + (is_known ? "/" + std::string(files_folder) : ""));
  }
}

// Replaces an older one of the same name.
bool rename_aside(int folder, const std::string& name, std::string_view prefix) {
  const std::string aside = std::string(prefix) + name;
  remove_below(folder, aside);
  return ::renameat(folder, name.c_str(), folder, aside.c_str()) == 0;
}

}  // namespace

result<unique_fd> open_folder(const std::string& path) {
  unique_fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return last_system_error();
  return folder;
}

std::vector<found_file> list_files(int folder) {
  std::vector<found_file> found;
  unique_fd again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (again) list_into(found, std::move(again), {}, 1);
  return found;
}

void remove_below(int folder, std::string_view path) {
  const std::size_t slash = path.rfind('/');
  unique_fd parent;
  if (slash != std::string_view::npos) {
    auto opened = open_below(folder, path.substr(0, slash), O_RDONLY | O_DIRECTORY);
    if (!opened) return;
    parent = std::move(*opened);
    path.remove_prefix(slash + 1);
  }
  const std::filesystem::path at =
      "/proc/self/fd/" + std::to_string(parent ? parent.get() : folder) + "/" + std::string(path);
  std::error_code ignored;
  std::filesystem::remove_all(at, ignored);  // does not follow links
}

void remove_entry(int folder, std::string_view name) {
  // The marker goes first: a reader then sees no entry, rather than half of one.
  remove_below(folder, std::string(name) + std::string(marker_name));
  remove_below(folder, std::string(name) + "/" + std::string(marker_name));
  remove_below(folder, name);
}

bool unmark_entry(int folder, const entry& one) {
  const std::string marker = one.files.back().path;
  const std::size_t slash = marker.rfind('/');
  unique_fd parent;
  if (slash != std::string::npos) {
    auto opened = open_below(folder, marker.substr(0, slash), O_RDONLY | O_DIRECTORY);
    if (!opened) return false;
    parent = std::move(*opened);
  }
  const int at = parent ? parent.get() : folder;
  const std::string name = slash == std::string::npos ? marker : marker.substr(slash + 1);
  const std::string other = name + std::string(unmarked_suffix);
  return ::renameat(at, name.c_str(), at, other.c_str()) == 0;
}

std::vector<std::string> kept_folders(const std::string& disk) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator each(disk, error), end; !error && each != end;
       each.increment(error)) {
    std::string name = each->path().filename().string();
    if (order_in(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  return names;
}

void remove_older(const std::string& disk, std::size_t count) {
  const std::vector<std::string> names = kept_folders(disk);
  const auto folder = open_folder(disk);
  for (std::size_t index = count; folder && index < names.size(); ++index) {
    // Without its manifest, a half-removed entry does not count.
    remove_below(folder->get(), names[index] + "/" + std::string(manifest_file));
    remove_below(folder->get(), names[index]);
  }
}

void remove_unfinished(const std::string& disk) {
  const auto folder = open_folder(disk);
  if (!folder) return;
  for (const std::string& name : names_in(disk)) {
    if (name.starts_with(unfinished_name({}))) remove_below(folder->get(), name);
  }
}

void hide_newer(const std::string& disk, std::int64_t order) {
  const auto folder = open_folder(disk);
  if (!folder) return;
  for (const std::string& name : kept_folders(disk)) {
    // The folders are sorted, newest first.
    if (*order_in(name) <= order) break;
    rename_aside(folder->get(), name, hidden_prefix);
  }
  remove_old_asides(disk, folder->get(), hidden_prefix, kept_on_disk);
}

std::optional<std::string> read_resumed_note(int folder, const version& beside) {
  const auto file = open_below(folder, resumed_note_of(beside), O_RDONLY);
  if (!file) return std::nullopt;
  char text[note_bytes_max];
  const ssize_t length = ::read(file->get(), text, sizeof text);
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
}

// A note stays, if empty: without one the newest entry would count as the one resumed from, though
// the workers die before they resume from anything.
void clear_resumed_notes(int folder) {
  for (const found_file& one : list_files(folder)) {
    const std::string_view path = one.path;
    const bool is_note = path.substr(path.rfind('/') + 1) == resumed_note;
    if (!is_note || one.kind != file_kind::regular || one.size == 0) continue;
    if (const auto file = open_below(folder, path, O_WRONLY)) (void)!::ftruncate(file->get(), 0);
  }
}

std::vector<version> set_aside_in(const std::string& disk) {
  std::vector<version> found;
  for (const std::string& name : names_in(disk)) {
    if (!name.starts_with(aside_prefix) && !name.starts_with(hidden_prefix)) continue;
    if (auto kept = read_manifest(disk + "/" + name)) found.push_back(std::move(kept->what));
  }
  return found;
}

bool set_aside_on_disk(const std::string& disk, const version& what) {
  const auto folder = open_folder(disk);
  if (!folder) return false;
  const std::string name = folder_of(what);
  struct stat facts = {};
  if (::fstatat(folder->get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const bool is_done = rename_aside(folder->get(), name, aside_prefix);
  remove_old_asides(disk, folder->get(), aside_prefix, 1);
  return is_done;
}

}  // namespace ddprun::launcher::vault
