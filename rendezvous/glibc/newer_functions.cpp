// Functions that glibc 2.28 does not have, for a program that may run on it: as glibc's own, which
// the static libraries of the compiler, SQLite and Boost were compiled for. The program's own calls
// come here as well, on every glibc.
//
// Each is hidden: no library that the program loads takes it for glibc's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define DDPRUN_HIDDEN extern "C" __attribute__((visibility("hidden"), used))

// What stat() called until 2.33, where it was inline. Headers no longer have it, and libc still
// does, in its one version.
extern "C" {
int __xstat(int layout, const char* path, struct ::stat* out);
int __lxstat(int layout, const char* path, struct ::stat* out);
int __fxstat(int layout, int descriptor, struct ::stat* out);
int __fxstatat(int layout, int folder, const char* path, struct ::stat* out, int flags);
}

namespace {

#if defined(__x86_64__)
constexpr int stat_layout = 1;
#else
constexpr int stat_layout = 0;
#endif

constexpr long nanoseconds_a_second = 1'000'000'000;

timespec now_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now;
}

timespec normal(time_t seconds, long nanoseconds) {
  while (nanoseconds < 0) {
    nanoseconds += nanoseconds_a_second;
    --seconds;
  }
  while (nanoseconds >= nanoseconds_a_second) {
    nanoseconds -= nanoseconds_a_second;
    ++seconds;
  }
  return timespec{seconds, nanoseconds};
}

// The same moment on the clock by which such a condition variable counts.
timespec on_wall_clock(clockid_t clock, const timespec& deadline) {
  const timespec there = now_of(clock);
  const timespec here = now_of(CLOCK_REALTIME);
  return normal(here.tv_sec + (deadline.tv_sec - there.tv_sec),
                here.tv_nsec + (deadline.tv_nsec - there.tv_nsec));
}

using clock_wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

}  // namespace

DDPRUN_HIDDEN int stat(const char* path, struct ::stat* out) noexcept {
  return __xstat(stat_layout, path, out);
}
DDPRUN_HIDDEN int lstat(const char* path, struct ::stat* out) noexcept {
  return __lxstat(stat_layout, path, out);
}
DDPRUN_HIDDEN int fstat(int descriptor, struct ::stat* out) noexcept {
  return __fxstat(stat_layout, descriptor, out);
}
DDPRUN_HIDDEN int fstatat(int folder, const char* path, struct ::stat* out, int flags) noexcept {
  return __fxstatat(stat_layout, folder, path, out, flags);
}
// The layout is the same where a file offset has 64 bits.
static_assert(sizeof(off_t) == sizeof(std::int64_t));
DDPRUN_HIDDEN int stat64(const char* path, struct ::stat64* out) noexcept {
  return __xstat(stat_layout, path, reinterpret_cast<struct ::stat*>(out));
}
DDPRUN_HIDDEN int lstat64(const char* path, struct ::stat64* out) noexcept {
  return __lxstat(stat_layout, path, reinterpret_cast<struct ::stat*>(out));
}
DDPRUN_HIDDEN int fstat64(int descriptor, struct ::stat64* out) noexcept {
  return __fxstat(stat_layout, descriptor, reinterpret_cast<struct ::stat*>(out));
}

// Of 2.30, for std::condition_variable with a steady clock. glibc's own where it has one; else as
// libstdc++ did before: a step of the wall clock while it waits makes that wait shorter or longer,
// and its callers look at their own clock again.
DDPRUN_HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                         clockid_t clock, const timespec* deadline) {
  static const auto own =
      reinterpret_cast<clock_wait>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (own != nullptr) return own(condition, mutex, clock, deadline);
  if (clock == CLOCK_REALTIME) return ::pthread_cond_timedwait(condition, mutex, deadline);
  const timespec moment = on_wall_clock(clock, *deadline);
  return ::pthread_cond_timedwait(condition, mutex, &moment);
}

// Of 2.36, for std::random_device. Like glibc's it never fails: the program ends.
DDPRUN_HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) {
    std::perror("no random numbers: getrandom");
    std::abort();
  }
  return number;
}

// Of 2.32: whether counts of references may do without atomic instructions. They never do.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
