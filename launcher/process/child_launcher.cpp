#include "launcher/process/child_launcher.hpp"

#include "launcher/process/start_failure.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

struct forked {
  pid_t pid = -1;   // 0: this is the child
  int handle = -1;  // pidfd
  int error = 0;
};

forked clone_child(int cgroup) {
  forked child;
  clone_args arguments{};
  // The kernel resets the signal handlers, which saves the child sixty system calls.
  arguments.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  arguments.pidfd = reinterpret_cast<std::uintptr_t>(&child.handle);
  arguments.exit_signal = SIGCHLD;
  child.pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
  child.error = child.pid < 0 ? errno : 0;
  return child;
}

forked fork_child() {
  forked child;
  child.pid = ::fork();
  child.error = child.pid < 0 ? errno : 0;
  if (child.pid <= 0) return child;
  child.handle = static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0));
  if (child.handle >= 0) return child;
  child.error = errno;
  // The child has not run anything that could block, so this takes no time.
  ::kill(child.pid, SIGKILL);
  ::waitpid(child.pid, nullptr, 0);
  child.pid = -1;
  return child;
}

}  // namespace

error_code child_launcher::operator()(child_plan& plan) {
  const signals_blocked blocked;
  plan.mask = blocked.before();
  forked child = clone_child(plan.cgroup);
  // The cgroup was removed, or the kernel is older than 5.7: start the worker without it.
  const bool is_refused = child.error != 0 && !is_shortage(child.error);
  if (is_refused && plan.cgroup >= 0) child = clone_child(-1);
  // EINVAL: a kernel before 5.5, where the child keeps our handlers.
  plan.has_our_handlers = child.error == ENOSYS || child.error == EINVAL;
  if (plan.has_our_handlers) child = fork_child();
  if (child.pid == 0) run_child(plan);
  pid = child.pid;
  handle.reset(child.handle);
  return system_error(child.error);
}

}  // namespace ddprun::launcher
