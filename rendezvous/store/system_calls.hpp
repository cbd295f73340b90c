// The system calls of the store's hot path, without glibc's wrappers: in a process with threads
// each wrapper is a cancellation point, which costs two atomic exchanges. Threads are never
// cancelled here, and with three calls per request that was one instruction in six.
//
// Results and errno are those of the system calls. Thread rule: any thread.
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

// In milliseconds; -1: no limit.
inline int epoll_wait(int poll, epoll_event* events, int events_max, int limit) {
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, poll, events, events_max, limit, nullptr, sizeof(long)));
}

}  // namespace ddprun::store::system_calls
