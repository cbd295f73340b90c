// The folder in which the PyTorch of each worker listens for this agent (ddprun_server.py), at the
// socket PID:
//
//   /tmp/ddprun-servers-UID/MARK/4711
//
// Nobody else may enter it. It is locked as long as this object lives, and removed with it; what an
// agent that was killed has left the next one of this user removes. A file system without locks is
// not used, because what is left there would stay.
//
// Thread rule: one thread; blocks while the file system does (TMPDIR, else /tmp, else /dev/shm).
// Errors: none; where it cannot be made no worker listens.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <functional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// Without waiting; -1 and errno: it is not locked.
int lock_folder(int folder);

class server_folder {
 public:
  // `lock`: as flock(), for an exclusive lock; tests have their own.
  explicit server_folder(const environment_map& variables,
                         const std::function<int(int folder)>& lock = &lock_folder);
  ~server_folder();
  server_folder(const server_folder&) = delete;
  server_folder& operator=(const server_folder&) = delete;

  const std::string& path() const { return path_; }  // empty: there is none
  // Removes the sockets of workers that have ended.
  void empty();

 private:
  bool make_in(const std::string& place, const std::function<int(int)>& lock);

  std::string path_;
  unique_fd folder_;  // locked
};

// Of this worker; empty: it listens nowhere.
std::string server_socket(const std::string& folder, pid_t worker);

}  // namespace ddprun::launcher::evidence
