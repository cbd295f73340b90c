#include "rendezvous/journal/folder_lock.hpp"

#include "rendezvous/base/private_folders.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace ddprun::journal {
namespace {

constexpr std::chrono::milliseconds pause{10};
constexpr int tries_max = 30;

bool is_locked_by_another(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN);
}

// The previous daemon may have removed the file with its folder after it was opened here.
bool is_still_at(const std::string& path, int file) {
  struct stat there {};
  struct stat opened {};
  if (::fstat(file, &opened) != 0) return true;
  return ::stat(path.c_str(), &there) == 0 && there.st_dev == opened.st_dev &&
         there.st_ino == opened.st_ino;
}

}  // namespace

bool folder_lock::take(const std::string& folder, open_failure& failure) {
  const std::string path = folder + "/lock";
  const auto open = [&] {
    if (make_private_folders(folder)) return;  // opening the journal reports the reason
    file_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  };
  open();
  for (int tries = 1; file_; ++tries) {
    const bool is_taken = is_locked_by_another(file_.get());
    if (!is_taken && is_still_at(path, file_.get())) return true;
    // A daemon that ends may hold the lock a moment longer, so it is tried several times.
    if (tries == tries_max) {
      failure = taken_by_another(folder);
      release();
      return false;
    }
    if (is_taken) {
      std::this_thread::sleep_for(pause);
    } else {
      // The file was removed: lock the one that is at this path now.
      release();
      open();
    }
  }
  // The file could not be opened. The folder counts as free, and SQLite's lock decides.
  return true;
}

open_failure taken_by_another(const std::string& folder) {
  return {folder +
              "/journal.sqlite is in use by another daemon: end that one, or name another "
              "--state-dir",
          true};
}

}  // namespace ddprun::journal
