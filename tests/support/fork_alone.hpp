// A fork for children that handle signals.
//
// Work that hangs is left to threads of its own (launcher/base/begun_task.hpp), and one may still
// be ending when the next test begins. In the child of a process with several threads TSan
// intercepts nothing more, and a signal that it keeps for the next interceptor is never heard.
#pragma once

#include <chrono>
#include <filesystem>
#include <iterator>
#include <sys/types.h>
#include <thread>
#include <unistd.h>

namespace ddprun::tests {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool is_under_tsan = true;
#elif defined(__has_feature)
inline constexpr bool is_under_tsan = __has_feature(thread_sanitizer);
#else
inline constexpr bool is_under_tsan = false;
#endif

// Forks; under TSan once this process has no other thread, or after ten seconds.
inline pid_t fork_alone() {
  constexpr std::ptrdiff_t own = 2;  // TSan has one in the background
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (is_under_tsan && threads() > own && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  return ::fork();
}

}  // namespace ddprun::tests
