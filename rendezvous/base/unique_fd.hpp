// A unique_fd owns one open file descriptor; with it come the few calls that create some.
//
// Everything created here is close-on-exec: nothing of the agent may leak into a worker.
//
// Thread rule: plain values; one owner, one thread at a time.
#pragma once

#include "rendezvous/base/error.hpp"

#include <utility>

namespace ddprun {

class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~unique_fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);  // closes the descriptor that it owned

 private:
  int fd_ = -1;
};

struct pipe_ends {
  unique_fd read;
  unique_fd write;
};

// Both ends are close-on-exec and blocking. Errors: the system's (too many open files).
result<pipe_ends> make_pipe();

// O_NONBLOCK belongs to the open file, not to the descriptor, so use this only for ends that no
// other process shares.
void set_nonblocking(int fd);

// Opens the null device for each of 0, 1 and 2 that is closed, so that no pipe or socket of ours
// gets one of these numbers. Must come first in main.
void ensure_standard_descriptors();

}  // namespace ddprun
