// The file in which workers read why they are stopped (DDPRUN_STOP): one memory file for all
// workers of this node, written before they get the signal.
//
//   ordinary 81532.417      all ranks of the round were asked to end, and none is known to be lost
//   failure 81507.417       a rank has failed or is lost, or that is not known
//
// The number is the time at which workers are killed at the earliest, in seconds of the monotonic
// clock. The file is empty until then. A worker that waits for another rank on a GPU cannot tell
// otherwise whether that rank still comes.
//
// Thread rule: the main thread. Ownership: this object owns the file, and workers open it through
// this process's /proc. Errors: none; without a file the path is empty.
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>

namespace ddprun::launcher {

class stop_file {
 public:
  stop_file();

  const std::string& path() const { return path_; }

  // A round begins: nobody is stopped.
  void begin_round();
  // `grace`: from now to SIGKILL.
  void stop(bool is_ordinary, duration grace);
  // A worker of the round has not ended well: the others may wait for it.
  void rank_is_lost();

 private:
  void write() const;

  unique_fd file_;
  std::string path_;
  time_point killed_at_{};
  bool is_stopping_ = false, is_ordinary_ = false;
};

}  // namespace ddprun::launcher
