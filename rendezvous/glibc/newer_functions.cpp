// Functions that glibc 2.28 does not have, for a program that may run on it. They behave like
// glibc's own, for which the static libraries of the compiler, SQLite and Boost were compiled. The
// program's own calls come here as well, with every glibc.
//
// Each is hidden, so that no library that the program loads uses it in place of glibc's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define DDPRUN_HIDDEN extern "C" __attribute__((visibility("hidden"), used))

// Until 2.33 stat() was inline and called this. Headers no longer declare it, but libc still has
// it, in its only version.
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

// The same moment on the clock that such a condition variable uses.
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

// New in 2.30, used by std::condition_variable with a steady clock. This calls glibc's own if there
// is one. Otherwise it does what libstdc++ did before: if the wall clock is set while it waits, the
// wait is shorter or longer, and its callers check their own clock again.
DDPRUN_HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                         clockid_t clock, const timespec* deadline) {
  static const auto own =
      reinterpret_cast<clock_wait>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (own != nullptr) return own(condition, mutex, clock, deadline);
  if (clock == CLOCK_REALTIME) return ::pthread_cond_timedwait(condition, mutex, deadline);
  const timespec moment = on_wall_clock(clock, *deadline);
  return ::pthread_cond_timedwait(condition, mutex, &moment);
}

// New in 2.36, used by std::random_device. Like glibc's it never fails: it ends the program
// instead.
DDPRUN_HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) {
    std::perror("no random numbers: getrandom");
    std::abort();
  }
  return number;
}

// New in 2.32: whether reference counts may do without atomic instructions. Here they never do.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
