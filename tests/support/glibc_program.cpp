// Calls what rendezvous/glibc replaces in glibc, as programs call it, on whichever glibc is
// installed. Prints the version of glibc, and "ok" for each check that passes.
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gnu/libc-version.h>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

bool was_initialized = false;
struct initializer {
  initializer() { was_initialized = true; }
  ~initializer() { std::puts("the end: ok"); }
} at_start;

void say(const char* what, bool is_right) {
  std::printf("%s: %s\n", what, is_right ? "ok" : "WRONG");
}

int throwing_order(const void*, const void*) {
  throw std::runtime_error("out of qsort");
}

// The unwinder must pass a frame of libc, for which it asks the loader.
bool exceptions_pass_libc() {
  int numbers[] = {3, 1, 2};
  try {
    std::qsort(numbers, 3, sizeof(int), throwing_order);
  } catch (const std::runtime_error& error) {
    return std::string(error.what()) == "out of qsort";
  }
  return false;
}

bool exceptions_stay_in_threads() {
  bool is_caught = false;
  std::thread([&] {
    try {
      throw std::runtime_error("of a thread");
    } catch (const std::exception&) {
      is_caught = true;
    }
  }).join();
  return is_caught;
}

bool a_wait_lasts(std::chrono::milliseconds duration) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  const auto deadline = std::chrono::steady_clock::now() + duration;
  while (condition.wait_until(lock, deadline) == std::cv_status::no_timeout) {
  }
  return std::chrono::steady_clock::now() >= deadline;
}

bool a_wait_is_ended() {
  std::mutex mutex;
  std::condition_variable condition;
  bool is_told = false;
  std::thread teller([&] {
    const std::lock_guard lock(mutex);
    is_told = true;
    condition.notify_one();
  });
  std::unique_lock lock(mutex);
  const bool is_right = condition.wait_for(lock, 1h, [&] { return is_told; });
  lock.unlock();
  teller.join();
  return is_right;
}

bool files_are_looked_at() {
  struct ::stat by_path {};
  struct ::stat by_descriptor {};
  return ::stat("/proc/self/exe", &by_path) == 0 && ::fstat(STDIN_FILENO, &by_descriptor) == 0 &&
         S_ISREG(by_path.st_mode) && by_path.st_size > 10'000 &&
         ::lstat("/proc/self/exe", &by_path) == 0 && S_ISLNK(by_path.st_mode) &&
         ::stat("/nowhere", &by_path) == -1 &&
         std::filesystem::file_size("/proc/self/exe") > 10'000;
}

bool names_are_resolved() {
  addrinfo* found = nullptr;
  if (::getaddrinfo("localhost", "80", nullptr, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

}  // namespace

int main(int argc, char**) {
  std::printf("glibc %s\n", ::gnu_get_libc_version());
  say("initializers", was_initialized && argc == 1);
  say("exceptions through libc", exceptions_pass_libc());
  say("exceptions in a thread", exceptions_stay_in_threads());
  say("a wait until a moment", a_wait_lasts(20ms));
  say("a wait that is ended", a_wait_is_ended());
  say("files", files_are_looked_at());
  say("random numbers", std::random_device()() != std::random_device()());
  say("arithmetic", std::pow(argc + 1.0, 3.0) == 8.0 && std::log(argc) == 0.0);
  say("names", names_are_resolved());
}
