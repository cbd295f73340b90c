// A folder_lock reserves a state folder for one daemon for as long as its process lives.
//
// It is a POSIX record lock (fcntl(2)) on the file `lock` in the folder, taken before anything else
// there is read: in a new folder, two daemons that start at once have nothing else to collide on.
// The lock belongs to this process and not to its children; it does not exclude others within the
// process. If the file system has no locks, or no room for the file, the folder counts as free, and
// SQLite's own lock decides.
//
// Thread rule: one thread at a time; it may wait for the disk. Ownership: owns the file descriptor.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/journal/journal.hpp"

#include <string>

namespace ddprun::journal {

class folder_lock {
 public:
  // Creates the folder if it is missing. Returns false, with is_taken, if another daemon has held
  // it for a third of a second (one that ends may still be closing it).
  bool take(const std::string& folder, open_failure& failure);
  void release() { file_.reset(); }

 private:
  unique_fd file_;
};

// The failure when another daemon has the folder, whichever lock has shown it.
open_failure taken_by_another(const std::string& folder);

}  // namespace ddprun::journal
