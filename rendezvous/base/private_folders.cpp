#include "rendezvous/base/private_folders.hpp"

#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace ddprun {
namespace {

// Returns errno, or 0. Another process may create the same folder meanwhile.
int make_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0) return 0;
  const int error = errno;
  struct stat found {};
  if (error != EEXIST || ::stat(path.c_str(), &found) != 0) return error;
  return S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
}

}  // namespace

error_code make_private_folders(const std::string& path, folder_owner above) {
  std::vector<std::filesystem::path> missing;
  std::filesystem::path there = path;
  struct stat found {};
  // Walk upwards with stat() only: it makes an automounter mount the folder, and mkdir() fails on a
  // read-only disk even if the folder exists.
  while (::stat(there.empty() ? "." : there.c_str(), &found) != 0) {
    if (errno != ENOENT || there.empty() || there == "/") return last_system_error();
    missing.push_back(there);
    there = there.parent_path();
  }
  if (!S_ISDIR(found.st_mode)) return system_error(ENOTDIR);
  if (missing.empty()) return {};
  const bool is_own = found.st_uid == ::geteuid() && there != "/";
  if (above == folder_owner::this_user && !is_own) return system_error(EPERM);
  for (; !missing.empty(); missing.pop_back()) {
    if (const int error = make_folder(missing.back()); error != 0) return system_error(error);
  }
  return {};
}

}  // namespace ddprun
