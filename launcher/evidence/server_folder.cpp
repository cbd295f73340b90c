#include "launcher/evidence/server_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

constexpr std::size_t socket_path_bytes_max = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t worker_number_bytes_max = 10;  // of a process
constexpr int folder_tries = 3;
// So many that others have left are looked at.
constexpr std::size_t names_max = 4096;

unique_fd open_folder(int above, const char* name) {
  return unique_fd(::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Ours alone.
bool is_private(const unique_fd& folder) {
  struct stat found {};
  return folder && ::fstat(folder.get(), &found) == 0 && found.st_uid == ::geteuid() &&
         (found.st_mode & 077) == 0;
}

std::vector<std::string> entries_of_folder(int folder) {
  std::vector<std::string> names;
  unique_fd own = open_folder(folder, ".");
  if (!own) return names;
  const auto close = [](DIR* opened) { ::closedir(opened); };
  const std::unique_ptr<DIR, decltype(close)> opened(::fdopendir(own.get()), close);
  if (!opened) return names;
  own.release();
  while (names.size() < names_max) {
    const dirent* const entry = ::readdir(opened.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void remove_files(int folder) {
  for (const std::string& name : entries_of_folder(folder))
    ::unlinkat(folder, name.c_str(), 0);
}

// Those whose agent is gone.
void remove_left(int above, const std::function<int(int)>& lock) {
  for (const std::string& name : entries_of_folder(above)) {
    const unique_fd left = open_folder(above, name.c_str());
    if (!left || lock(left.get()) != 0) continue;
    remove_files(left.get());
    ::unlinkat(above, name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace

int lock_folder(int folder) {
  return ::flock(folder, LOCK_EX | LOCK_NB);
}

server_folder::server_folder(const environment_map& variables,
                             const std::function<int(int folder)>& lock) {
  for (const std::string& place :
       {folder_for_temporaries(variables), std::string("/tmp"), std::string("/dev/shm")}) {
    for (int count = 0; count < folder_tries && path_.empty(); ++count) {
      if (!make_in(place, lock)) break;
    }
    if (!path_.empty()) return;
  }
}

// False: it cannot be made there. Else it may have been taken for one that was left.
bool server_folder::make_in(const std::string& place, const std::function<int(int)>& lock) {
  const std::string above = place + "/ddprun-servers-" + std::to_string(::geteuid());
  std::string path = above + "/XXXXXX";
  const bool is_absolute = place.starts_with('/');  // workers may have another current folder
  if (!is_absolute || path.size() + 1 + worker_number_bytes_max > socket_path_bytes_max)
    return false;
  ::mkdir(above.c_str(), 0700);
  const unique_fd parent = open_folder(AT_FDCWD, above.c_str());
  if (!is_private(parent)) return false;
  remove_left(parent.get(), lock);
  // Another agent that ends may remove the folder above meanwhile.
  if (::mkdtemp(path.data()) == nullptr) return errno == ENOENT;
  unique_fd made = open_folder(AT_FDCWD, path.c_str());
  struct stat found {};
  if (!is_private(made)) return true;
  if (lock(made.get()) != 0) {
    if (errno == EWOULDBLOCK) return true;  // it is being removed
    ::rmdir(path.c_str());
    ::rmdir(above.c_str());
    return false;
  }
  if (::fstat(made.get(), &found) != 0 || found.st_nlink == 0) return true;
  path_ = std::move(path);
  folder_ = std::move(made);
  return true;
}

server_folder::~server_folder() {
  if (path_.empty()) return;
  empty();
  ::rmdir(path_.c_str());
  ::rmdir(path_.substr(0, path_.rfind('/')).c_str());  // if no other agent has one there
}

void server_folder::empty() {
  if (folder_) remove_files(folder_.get());
}

std::string server_socket(const std::string& folder, pid_t worker) {
  return folder.empty() ? std::string() : folder + "/" + std::to_string(worker);
}

}  // namespace ddprun::launcher::evidence
