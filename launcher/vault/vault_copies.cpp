// Copies entries to disk and back.
#include "launcher/base/write_all.hpp"
#include "launcher/vault/open_below.hpp"
#include "launcher/vault/vault_files.hpp"
#include "worker/snapshot/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

constexpr std::size_t copied_at_once = 1 << 20;
constexpr std::size_t manifest_bytes_max = 32 << 20;

outcome system_problem(const std::string& what) {
  const std::string words = last_system_error().message();
  return {.problem = what + ": " + words};
}

outcome changed_problem(const std::string& path) {
  return {.problem = path + " was written to meanwhile", .has_changed = true};
}

// Copies exactly `size` bytes, or fails; `sum` covers what was copied.
outcome copy_bytes(int from, int to, const std::string& path, std::uint64_t size,
                   worker::checksum& sum, const pace& go_on) {
  std::string piece(std::min<std::uint64_t>(copied_at_once, size + 1), '\0');
  std::uint64_t copied = 0;
  while (true) {
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_problem("cannot read " + path);
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
    copied += bytes.size();
    // The buffer is a byte larger than the file, so growth is noticed, too.
    if (copied > size || (bytes.empty() && copied != size)) return changed_problem(path);
    if (bytes.empty()) return {};
    sum.add(bytes);
    if (write_all(to, bytes) != 0) return system_problem("cannot write " + path);
    if (!go_on(bytes.size())) return {.problem = "given up", .is_abandoned = true};
  }
}

bool is_as_listed(int file, const found_file& listed) {
  struct stat facts = {};
  return ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
         static_cast<std::uint64_t>(facts.st_size) == listed.size &&
         modified_ns(facts) == listed.modified_ns;
}

outcome keep_file(int memory, const found_file& file, int disk, manifest& made, const pace& go_on) {
  const auto from = open_below(memory, file.path, O_RDONLY);
  if (!from || !is_as_listed(from->get(), file)) return changed_problem(file.path);
  const auto to = create_below(disk, std::string(files_folder) + "/" + file.path);
  if (!to) return {.problem = "cannot create " + file.path + ": " + to.error().message()};
  worker::checksum sum;
  if (outcome copied = copy_bytes(from->get(), to->get(), file.path, file.size, sum, go_on);
      !copied.is_done())
    return copied;
  if (!is_as_listed(from->get(), file)) return changed_problem(file.path);
  if (!set_modified(to->get(), file.modified_ns) || ::fsync(to->get()) != 0)
    return system_problem("cannot write " + file.path);
  made.files.push_back({file.path, file.size, sum.value(), file.modified_ns});
  return {};
}

// Makes the names survive a crash of the machine.
bool sync_folders(int disk, const manifest& made) {
  std::set<std::string> folders = {"."};
  for (const kept_file& one : made.files) {
    const std::string path = std::string(files_folder) + "/" + one.path;
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
      folders.insert(path.substr(0, at));
  }
  return std::all_of(folders.begin(), folders.end(), [&](const std::string& each) {
    const unique_fd folder(::openat(disk, each.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return folder && ::fsync(folder.get()) == 0;
  });
}

outcome write_manifest(int disk, const manifest& made) {
  const auto file = create_below(disk, manifest_file);
  if (!file) return {.problem = "cannot create its manifest: " + file.error().message()};
  if (write_all(file->get(), to_text(made)) != 0 || ::fsync(file->get()) != 0 ||
      !sync_folders(disk, made))
    return system_problem("cannot write its manifest");
  return {};
}

outcome keep_files(int memory, const entry& kept, int unfinished, manifest& made,
                   const pace& go_on) {
  for (const found_file& one : kept.files) {
    if (outcome done = keep_file(memory, one, unfinished, made, go_on); !done.is_done())
      return done;
  }
  return {};
}

outcome put_file_back(int kept, const kept_file& file, int memory, const pace& go_on) {
  const auto damaged = [&](const std::string& how) {
    return outcome{.problem = file.path + " " + how, .is_damaged = true};
  };
  const auto from = open_below(kept, std::string(files_folder) + "/" + file.path, O_RDONLY);
  if (!from) return damaged("is missing");
  const auto to = create_below(memory, file.path);
  if (!to) return {.problem = "cannot create " + file.path + ": " + to.error().message()};
  worker::checksum sum;
  outcome copied = copy_bytes(from->get(), to->get(), file.path, file.size, sum, go_on);
  // On disk no worker writes, so another size means damage.
  if (copied.has_changed) return damaged("has another size");
  if (!copied.is_done()) return copied;
  if (sum.value() != file.checksum) return damaged("does not have its checksum");
  if (!set_modified(to->get(), file.modified_ns))
    return system_problem("cannot write " + file.path);
  return {};
}

}  // namespace

result<unique_fd> open_below(int folder, std::string_view path, int flags) {
  unique_fd at;
  while (true) {
    const std::size_t slash = path.find('/');
    const bool is_last = slash == std::string_view::npos;
    const std::string part(path.substr(0, slash));
    const int how = is_last ? flags : O_RDONLY | O_DIRECTORY;
    unique_fd next(
        ::openat(at ? at.get() : folder, part.c_str(), how | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!next) return last_system_error();
    if (is_last) return next;
    at = std::move(next);
    path.remove_prefix(slash + 1);
  }
}

result<unique_fd> create_below(int folder, std::string_view path) {
  unique_fd at;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/')) {
    const std::string part(path.substr(0, slash));
    const int parent = at ? at.get() : folder;
    if (::mkdirat(parent, part.c_str(), 0700) != 0 && errno != EEXIST) return last_system_error();
    unique_fd next(::openat(parent, part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return last_system_error();
    at = std::move(next);
    path.remove_prefix(slash + 1);
  }
  unique_fd file(::openat(at ? at.get() : folder, std::string(path).c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return last_system_error();
  return file;
}

bool set_modified(int file, std::int64_t modified) {
  timespec times[2] = {};
  times[1].tv_sec = modified / 1'000'000'000;
  times[1].tv_nsec = modified % 1'000'000'000;
  times[0] = times[1];
  return ::futimens(file, times) == 0;
}

outcome keep_on_disk(int memory, const entry& kept, const std::string& disk, std::string_view mark,
                     const pace& go_on) {
  if (!kept.problem.empty()) return {.problem = kept.problem};
  return keep_by(disk, kept.what, mark, [&](int unfinished, manifest& made) {
    made.from = kept.from;
    return keep_files(memory, kept, unfinished, made, go_on);
  });
}

outcome keep_by(const std::string& disk, const version& what, std::string_view mark,
                const std::function<outcome(int unfinished, manifest& made)>& fill) {
  const auto folder = open_folder(disk);
  if (!folder) return {.problem = "cannot open " + disk + ": " + folder.error().message()};
  const std::string unfinished = unfinished_name(mark);
  // A copy that was given up may have left one.
  remove_below(folder->get(), unfinished);
  if (::mkdirat(folder->get(), unfinished.c_str(), 0700) != 0)
    return system_problem("cannot create a folder in " + disk);
  const auto made = open_below(folder->get(), unfinished, O_RDONLY | O_DIRECTORY);
  if (!made) return {.problem = "cannot open a folder in " + disk + ": " + made.error().message()};
  manifest filled{what, {}, {}};
  outcome done = fill(made->get(), filled);
  if (done.is_done()) done = write_manifest(made->get(), filled);
  const std::string name = folder_of(what);
  if (done.is_done() &&
      ::renameat(folder->get(), unfinished.c_str(), folder->get(), name.c_str()) != 0) {
    // The same entry was copied by another thread first.
    if (errno != EEXIST && errno != ENOTEMPTY) done = system_problem("cannot rename a folder");
  }
  if (done.is_done() && ::fsync(folder->get()) != 0) done = system_problem("cannot write " + disk);
  remove_below(folder->get(), unfinished);
  return done;
}

std::optional<manifest> read_manifest(const std::string& kept) {
  const auto folder = open_folder(kept);
  if (!folder) return std::nullopt;
  const auto file = open_below(folder->get(), manifest_file, O_RDONLY);
  struct stat facts = {};
  if (!file || ::fstat(file->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  std::string text(
      std::min<std::size_t>(static_cast<std::size_t>(facts.st_size), manifest_bytes_max), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(file->get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    filled += static_cast<std::size_t>(got);
  }
  return parse_manifest(text);
}

outcome put_back_from(const std::string& kept, const manifest& wanted, int memory,
                      const pace& go_on) {
  const auto folder = open_folder(kept);
  if (!folder) return {.problem = "cannot open " + kept + ": " + folder.error().message()};
  remove_entry(memory, wanted.what.name);
  for (const kept_file& one : wanted.files) {
    outcome done = put_file_back(folder->get(), one, memory, go_on);
    if (done.is_done()) continue;
    remove_entry(memory, wanted.what.name);
    return done;
  }
  return {};
}

}  // namespace ddprun::launcher::vault
