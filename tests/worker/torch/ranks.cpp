#include "tests/worker/torch/ranks.hpp"

#include "tests/support/catch.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdio>
#include <exception>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::tests {
namespace {

struct child {
  pid_t process = -1;
  int output = -1;
};

// Runs `work` in a child, which writes to the descriptor it is given.
child start(const std::function<void(int)>& work) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  child result;
  result.process = ::fork();
  REQUIRE(result.process >= 0);
  if (result.process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    work(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  result.output = ends[0];
  return result;
}

void say(int output, const std::string& text) {
  if (::write(output, text.data(), text.size()) < 0) ::_exit(9);
}

// Reads to the end of the child's output, or to the end of its first line.
std::string hear(const child& from, bool only_a_line) {
  std::string text;
  char byte = 0;
  while (::read(from.output, &byte, 1) == 1) {
    if (only_a_line && byte == '\n') break;
    text.push_back(byte);
  }
  return text;
}

void serve_store(int output) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store("127.0.0.1", options);
  say(output, std::to_string(store.getPort()) + "\n");
  ::pause();
}

}  // namespace

std::vector<std::string> run_ranks(
    std::uint32_t count, const std::function<std::string(const worker::environment&)>& rank) {
  const child store = start(serve_store);
  worker::environment environment;
  environment.world_size = environment.local_world_size = count;
  environment.master_address = "127.0.0.1";
  environment.master_port = static_cast<std::uint16_t>(std::stoi(hear(store, true)));
  environment.agent_store = true;
  std::vector<child> children;
  for (std::uint32_t number = 0; number < count; ++number) {
    environment.rank = environment.local_rank = number;
    children.push_back(start([&](int output) {
      try {
        say(output, rank(environment));
      } catch (const std::exception& error) {
        say(output, std::string("error: ") + error.what());
      }
    }));
  }
  std::vector<std::string> results;
  for (const auto& one : children) {
    std::string text = hear(one, false);
    int status = 0;
    REQUIRE(::waitpid(one.process, &status, 0) == one.process);
    if (WIFSIGNALED(status))
      text = "killed by signal " + std::to_string(WTERMSIG(status));
    else if (status != 0)
      text = "exited with " + std::to_string(WEXITSTATUS(status));
    results.push_back(text);
    ::close(one.output);
  }
  ::kill(store.process, SIGKILL);
  ::waitpid(store.process, nullptr, 0);
  ::close(store.output);
  return results;
}

}  // namespace ddprun::tests
