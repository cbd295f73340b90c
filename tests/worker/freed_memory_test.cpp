#include "worker/freed_memory.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::worker {
namespace {

constexpr std::size_t block_bytes = std::size_t{64} << 20;
constexpr int rounds = 8;

// The page faults while blocks are allocated, filled and freed in turn.
long faults_of_rounds() {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int round = 0; round < rounds; ++round) {
    const std::unique_ptr<char[]> block(new char[block_bytes]);
    std::memset(block.get(), round + 1, block_bytes);
    asm volatile("" : : "r"(block.get()) : "memory");  // keeps the compiler from removing the loop
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

// Runs in a process of its own, because the setting affects the whole process.
bool brings_the_pages_once(const char* variable) {
  const pid_t child = fork();
  if (child == 0) {
    for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"})
      unsetenv(name);
    if (variable != nullptr) setenv(variable, "1", 1);
    keep_freed_memory();
    const long once = static_cast<long>(block_bytes) / sysconf(_SC_PAGESIZE);
    _exit(faults_of_rounds() < 2 * once ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

TEST_CASE("freed memory stays with the process unless the user has set it otherwise") {
#if defined(DDPRUN_SANITIZED) || !defined(__GLIBC__)
  return tests::skip("the allocator is not glibc's");
#endif
  CHECK(brings_the_pages_once(nullptr));
  CHECK_FALSE(brings_the_pages_once("MALLOC_TRIM_THRESHOLD_"));
  CHECK_FALSE(brings_the_pages_once("GLIBC_TUNABLES"));
}

}  // namespace
}  // namespace ddprun::worker
