// The folder in which the PyTorch of each worker listens for this agent (ddprun_server.py), at the
// socket PID:
//
//   /tmp/ddprun-servers-UID/MARK/4711
//
// Nobody else may enter it. It is locked as long as this object lives, and removed with it; what an
// agent that was killed has left the next one of this user removes.
//
// Thread rule: one thread; blocks while the file system does (TMPDIR, else /tmp, else /dev/shm).
// Errors: none; where it cannot be made no worker listens.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

class server_folder {
 public:
  explicit server_folder(const environment_map& variables);
  ~server_folder();
  server_folder(const server_folder&) = delete;
  server_folder& operator=(const server_folder&) = delete;

  const std::string& path() const { return path_; }  // empty: there is none
  // Removes the sockets of workers that have ended.
  void empty();

 private:
  bool make_in(const std::string& place);

  std::string path_;
  unique_fd folder_;  // locked
};

// Of this worker; empty: it listens nowhere.
std::string server_socket(const std::string& folder, pid_t worker);

}  // namespace ddprun::launcher::evidence
