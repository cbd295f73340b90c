#include "launcher/hosts/ssh/ordered_agent.hpp"

#include "launcher/base/write_all.hpp"
#include "launcher/hosts/ssh/ssh_lifeline.hpp"
#include "rendezvous/base/signals.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace ddprun::launcher::ssh {
namespace {

void say(int descriptor, const std::string& line) {
  write_all(descriptor, line);  // a failure means that the head is gone, which the lifeline notices
}

}  // namespace

std::optional<ordered_agent> ordered_agent::from_arguments(int argc, char** argv) {
  if (argc != 3 || argv[1] != std::string_view(ordered_argument)) return {};
  return ordered_agent(argv[2]);
}

bool ordered_agent::take_order() {
  say(1, magic_ + " agent\n");
  auto read = read_order(0);
  if (!read) {
    std::fputs("ddprun: received no order from the head\n", stderr);
    return false;
  }
  order_ = std::move(*read);
  // The workers must not read from the head: standard input becomes the null device.
  from_head_.reset(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), 0);
  for (const auto& [name, value] : order_.variables)
    ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(order_.directory.c_str()) != 0) {
    std::fprintf(stderr, "ddprun: cannot work in %s, where this was started: %s\n",
                 order_.directory.c_str(), std::strerror(errno));
    return false;
  }
  // Programs read PWD, which would still be the login's directory.
  ::setenv("PWD", order_.directory.c_str(), 1);
  return true;
}

void ordered_agent::begin(leaving_patience patience) {
  // The head may pass on a signal before the agent handles it, and the agent must not die of it. An
  // empty handler, because SIG_IGN would tell the agent to leave that signal alone.
  for (const int number : {SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) std::signal(number, [](int) {});
  }
  say(2, magic_ + " runs\n");
  hold_lifeline(std::move(from_head_), std::move(patience));
}

void ordered_agent::end(int code) const {
  say(2, magic_ + " end " + agent_end_text(agent_end{code, why_}) + "\n");
}

}  // namespace ddprun::launcher::ssh
