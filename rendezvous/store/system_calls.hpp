// The system calls of the store's hot path, without what glibc wraps round them: in a process with
// threads each of its own makes itself a point where the thread may be cancelled, which takes two
// atomic exchanges. Nobody cancels threads here, and at three calls a request that was one
// instruction in six.
//
// Results and errno are those of the calls themselves. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace ddprun::store::system_calls {

inline ssize_t recv(int socket, void* bytes, std::size_t size, int flags) {
  return ::syscall(SYS_recvfrom, socket, bytes, size, flags, nullptr, nullptr);
}

inline ssize_t send(int socket, const void* bytes, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, socket, bytes, size, flags, nullptr, 0);
}

// Milliseconds; -1: without limit.
inline int epoll_wait(int poll, epoll_event* events, int events_max, int limit) {
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, poll, events, events_max, limit, nullptr, sizeof(long)));
}

}  // namespace ddprun::store::system_calls
