// What a message of the head does to an agent that does not listen yet, that listens, and that no
// longer listens.
#include "launcher/hosts/ssh/ssh_lifeline.hpp"

#include "rendezvous/base/signals.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <csignal>
#include <functional>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// The exit status of a process that holds a lifeline, over which the head sends `words` once
// `listen` has been called, and stays alive. `wait` is called meanwhile.
int status_of_agent(std::string_view words,
                    const std::function<void(boost::asio::signal_set&)>& listen,
                    const std::function<void(boost::asio::io_context&)>& wait) {
  auto from_head = make_pipe();
  auto ready = make_pipe();
  REQUIRE(from_head.has_value());
  REQUIRE(ready.has_value());
  const pid_t agent = ::fork();
  REQUIRE(agent >= 0);
  if (agent == 0) {
    from_head->write.reset();
    for (const int number : {SIGINT, SIGTERM})
      std::signal(number, SIG_DFL);
    ssh::hold_lifeline(std::move(from_head->read), [] { return std::chrono::hours(1); });
    boost::asio::io_context io;
    boost::asio::signal_set signals(io);
    listen(signals);
    if (::write(ready->write.get(), "r", 1) == 1) wait(io);
    ::_exit(1);
  }
  from_head->read.reset();
  ready->write.reset();
  char byte = 0;
  CHECK(::read(ready->read.get(), &byte, 1) == 1);
  CHECK(::write(from_head->write.get(), words.data(), words.size()) ==
        static_cast<ssize_t>(words.size()));
  int status = 0;
  REQUIRE(::waitpid(agent, &status, 0) == agent);
  return status;
}

void pause_for_good(boost::asio::io_context&) {
  while (true)
    ::pause();
}

}  // namespace

TEST_CASE("ssh: a signal of the head ends an agent that does not listen yet") {
  const int status = status_of_agent(
      "signal 2\n", [](boost::asio::signal_set&) {}, pause_for_good);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == exit_code_of_signal(SIGINT));
}

TEST_CASE("ssh: a signal of the head is heard by an agent that listens") {
  const int status = status_of_agent(
      "signal 2\n",
      [](boost::asio::signal_set& signals) {
        signals.add(SIGINT);
        signals.async_wait([](boost::system::error_code, int number) { ::_exit(100 + number); });
      },
      [](boost::asio::io_context& io) { io.run(); });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 100 + SIGINT);
}

// The agent still has to report how it ended. Here the last message ends it.
TEST_CASE("ssh: a signal of the head does not end an agent that is on its way out") {
  const int status = status_of_agent(
      "signal 2\nsignal 10\nsignal 9\n",
      [](boost::asio::signal_set& signals) {
        for (const int number : {SIGINT, SIGTERM, SIGUSR1})
          signals.add(number);
        signals.clear();
      },
      pause_for_good);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}
