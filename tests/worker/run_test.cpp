#include "worker/run.hpp"

#include "tests/support/catch.hpp"

#include <cerrno>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::tests {
namespace {

// What a process wrote to standard error, and how it ended.
std::string end_of(int (*program)()) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    ::dup2(ends[1], 2);
    ::close(ends[0]);
    ::close(ends[1]);
    ::_exit(program());
  }
  ::close(ends[1]);
  std::string text;
  for (char byte = 0; ::read(ends[0], &byte, 1) == 1;)
    text.push_back(byte);
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return (WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "a signal") + ": " + text;
}

}  // namespace

TEST_CASE("run: an error is one line and status 1", "[worker]") {
  const std::string name = program_invocation_short_name;
  CHECK(end_of([] { return worker::run([] {}); }) == "0: ");
  CHECK(end_of([] { return worker::run([] { return 143; }); }) == "143: ");
  CHECK(end_of([] {
          return worker::run([] { throw std::runtime_error("rank 1 of 4: all_reduce: gone"); });
        }) == "1: " + name + ": rank 1 of 4: all_reduce: gone\n");
  CHECK(end_of([] {
          return worker::run([]() -> int {
            throw std::runtime_error(
                "shapes differ\nby one\nException raised from f at a.cpp:1\n#0");
          });
        }) == "1: " + name + ": shapes differ by one\n");
  CHECK(end_of([] { return worker::run([] { throw 5; }); }) ==
        "1: " + name + ": ended by an exception that is not a std::exception\n");
}

}  // namespace ddprun::tests
