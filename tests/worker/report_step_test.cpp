#include "worker/report_step.hpp"

#include "launcher/evidence/progress_files.hpp"
#include "tests/support/catch.hpp"

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::worker {
namespace {

using launcher::evidence::said_step;

// Runs in a process of its own, because the variable is read only once.
int status_of_reporter(const char* path, std::uint64_t first, std::uint64_t second,
                       bool is_done = false) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    path == nullptr ? unsetenv("DDPRUN_PROGRESS") : setenv("DDPRUN_PROGRESS", path, 1);
    report_step(first);
    is_done ? report_step_done(second) : report_step(second);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace

TEST_CASE("a worker reports its step, and a shorter number overwrites a longer one completely") {
  const launcher::evidence::progress_files files(1);
  REQUIRE(files.paths().size() == 1);
  CHECK(status_of_reporter(files.paths()[0].c_str(), 7, 1204) == 0);
  CHECK(files.step_of(0) == said_step{1204, false});
  CHECK(status_of_reporter(files.paths()[0].c_str(), 18446744073709551615U, 1204, true) == 0);
  CHECK(files.step_of(0) == said_step{1204, true});
  CHECK(status_of_reporter(files.paths()[0].c_str(), 18446744073709551615U, 3) == 0);
  CHECK(files.step_of(0) == said_step{3, false});
}

TEST_CASE("a worker whose launcher does not watch reports nothing") {
  CHECK(status_of_reporter(nullptr, 1, 2) == 0);
  CHECK(status_of_reporter("", 1, 2) == 0);
  CHECK(status_of_reporter("/no/such/file", 1, 2) == 0);
}

}  // namespace ddprun::worker
