#include "launcher/process/stray_reaper.hpp"

#include "launcher/process/process_table.hpp"

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

stray_reaper::stray_reaper(boost::asio::any_io_executor executor, spawner& spawn)
    : child_ended_(executor), spawner_(spawn) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  error_code ignored;  // without SIGCHLD zombies stay until we end, no more
  child_ended_.add(SIGCHLD, ignored);
  watch();
}

void stray_reaper::watch() {
  child_ended_.async_wait([this](error_code error, int) {
    if (error) return;
    reap();
    watch();
  });
}

void stray_reaper::reap() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // One of the spawner's stands in front of the others until its owner reaps it; that calls here
    // again through the next SIGCHLD, or kill_strays().
    if (spawner_.owns(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

int stray_reaper::kill_strays() {
  int killed = 0;
  for (const auto& entry : list_processes()) {
    if (entry.parent != ::getpid() || spawner_.owns(entry.pid)) continue;
    if (entry.dead) {
      ::waitpid(entry.pid, nullptr, WNOHANG);
    } else if (::kill(entry.pid, SIGKILL) == 0) {
      ++killed;
    }
  }
  return killed;
}

}  // namespace ddprun
