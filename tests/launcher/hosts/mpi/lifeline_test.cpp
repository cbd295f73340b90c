// An agent is told to leave when the launcher's process on its node has ended. A child plays the
// agent, because its parent has to end.
#include "launcher/hosts/mpi/mpi_lifeline.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher::hosts::mpi {
namespace {

// Ends by the signal that it gets, which closes its end of the pipe.
[[noreturn]] void play_agent(int launcher, int told) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  {
    const lifeline lives_by(launcher);
    (void)!::write(told, "s", 1);
    int number = 0;
    ::sigwait(&set, &number);
    (void)!::write(told, number == SIGTERM ? "t" : "?", 1);
  }  // its thread has been joined: the thread sanitizer counts those that have not
  ::_exit(0);
}

// A lifeline has a pipe, at which its thread waits.
std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

char next_byte(int fd) {
  char byte = 0;
  while (::read(fd, &byte, 1) < 0 && errno == EINTR) {
  }
  return byte;
}

}  // namespace

TEST_CASE("mpi: an agent whose launcher has been killed is told to leave") {
  auto ends = make_pipe();
  REQUIRE(ends.has_value());
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    if (::fork() == 0) play_agent(::getppid(), ends->write.get());
    for (;;)
      ::pause();
  }
  ends->write.reset();
  CHECK(next_byte(ends->read.get()) == 's');
  ::kill(launcher, SIGKILL);
  CHECK(next_byte(ends->read.get()) == 't');
  ::waitpid(launcher, nullptr, 0);
}

TEST_CASE("mpi: a launcher that has ended before that was looked at counts too") {
  auto ends = make_pipe();
  REQUIRE(ends.has_value());
  const pid_t agent = ::fork();
  if (agent == 0) play_agent(0x3ffffffe, ends->write.get());  // above any number of a process
  ends->write.reset();
  char words[2] = {next_byte(ends->read.get()), next_byte(ends->read.get())};
  std::sort(words, words + 2);
  CHECK(std::string(words, 2) == "st");
  ::waitpid(agent, nullptr, 0);
}

TEST_CASE("mpi: without a launcher there is no lifeline, and one ends with its owner") {
  const auto before = open_descriptors();
  const lifeline none(0);
  CHECK(open_descriptors() == before);
  {
    const lifeline living(::getppid());
    CHECK(open_descriptors() > before);
  }
  CHECK(open_descriptors() == before);
}

}  // namespace ddprun::launcher::hosts::mpi
