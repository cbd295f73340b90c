// A folder_lock makes a state folder one daemon's own for as long as its process lives.
//
// It is a POSIX record lock (fcntl(2)) on the file `lock` in the folder, taken before anything else
// is looked at there: a folder in which nothing was written yet has nothing else that two daemons
// that start at once could meet at. It is of this process, and of no child; within one process it
// keeps nobody out. Where a file system knows no locks, or has no room for the file, the folder
// counts as free, and SQLite's own lock has to tell.
//
// Thread rule: one thread at a time; it may wait for the disk. Ownership: of the file's descriptor.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/journal/journal.hpp"

#include <string>

namespace ddprun::journal {

class folder_lock {
 public:
  // Makes the folder where it is missing. False, with is_taken: another daemon has it, and has not
  // let it go for a third of a second (one that ends may still be closing it).
  bool take(const std::string& folder, open_failure& failure);
  void release() { file_.reset(); }

 private:
  unique_fd file_;
};

// What is said of it, however that was found out.
open_failure taken_by_another(const std::string& folder);

}  // namespace ddprun::journal
