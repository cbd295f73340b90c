#include "launcher/process/child_setup.hpp"

#include "launcher/process/guardian_message.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

[[noreturn]] void fail(const child_plan& plan, start_stage stage, int error) noexcept {
  start_report report{};
  report.stage = stage;
  report.error = error;
  if (stage == start_stage::exec) {
    report.program_is_there = ::access(plan.program, F_OK) == 0;
    report.program_may_execute = ::access(plan.program, X_OK) == 0;
  }
  // A failed write cannot be handled; the parent then sees exit code 127.
  [[maybe_unused]] const auto written = ::write(plan.report, &report, sizeof(report));
  ::_exit(127);
}

// Handlers of the parent must not run in the child: they would write into the parent's pipes. A
// signal that the user told us to ignore (nohup) stays ignored.
void reset_handlers() noexcept {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;  // glibc reserves two signals
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    ::signal(signal, SIG_DFL);
  }
}

bool move_to(int from, int to) noexcept {
  return from < 0 || ::dup2(from, to) == to;
}

// Closes from 3 on, except the numbers in `kept`.
bool close_all_but(std::array<int, 4> kept) noexcept {
  std::sort(kept.begin(), kept.end());
  unsigned first = 3;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (fd < 0 || number < first) continue;
    if (number > first && ::syscall(SYS_close_range, first, number - 1, 0u) != 0) return false;
    first = number + 1;
  }
  return ::syscall(SYS_close_range, first, ~0u, 0u) == 0;
}

std::vector<unsigned long> mask_of(const std::vector<int>& processors) {
  constexpr int bits = std::numeric_limits<unsigned long>::digits;
  std::vector<unsigned long> mask;
  for (const int number : processors) {
    const auto word = static_cast<std::size_t>(number / bits);
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (number % bits);
  }
  return mask;
}

}  // namespace

child_plan make_child_plan(const spawn_request& request, const std::string& program) {
  child_plan plan;
  plan.program = program.c_str();
  for (const auto& argument : request.argv)
    plan.argv.push_back(argument.c_str());
  plan.argv.push_back(nullptr);
  for (const auto& variable : request.environment)
    plan.environment.push_back(variable.c_str());
  plan.environment.push_back(nullptr);
  if (!request.directory.empty()) plan.directory = request.directory.c_str();
  plan.processors = mask_of(request.processors);
  plan.input = request.standard_input;
  plan.announce_to = request.announce_to;
  plan.cgroup = request.cgroup;
  plan.dies_with_parent = !request.outlives_us;
  plan.ignores_signals_to_all = request.ignores_signals_to_all;
  plan.parent = ::getpid();
  return plan;
}

void run_child(const child_plan& plan) noexcept {
  if (::setsid() < 0) fail(plan, start_stage::session, errno);
  if (plan.dies_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(plan, start_stage::death_signal, errno);
    // The parent may have died before prctl, which then never fires.
    if (::getppid() != plan.parent) fail(plan, start_stage::death_signal, ESRCH);
  }
  if (plan.announce_to >= 0) {
    // If the guardian has just died, SIGPIPE must not kill the child.
    ::signal(SIGPIPE, SIG_IGN);
    // The child announces itself before exec, so that if the agent dies, no child of it is unknown
    // to the guardian. A full pipe is no error, because the agent announces it again.
    const guardian_message message = add_group_message(::getpid());
    [[maybe_unused]] const auto written = ::write(plan.announce_to, &message, sizeof(message));
    // All signals are blocked here, and a blocked SIGPIPE stays pending even if it is ignored.
    // Ignoring it again discards it.
    ::signal(SIGPIPE, SIG_IGN);
  }
  if (!close_all_but({plan.input, plan.output, plan.errors, plan.report})) {
    fail(plan, start_stage::inheritance, errno);
  }
  if (!move_to(plan.input, 0) || !move_to(plan.output, 1) || !move_to(plan.errors, 2)) {
    fail(plan, start_stage::streams, errno);
  }
  // No other descriptor is open. CLOSE_RANGE_CLOEXEC needs Linux 5.11, and Debian 11 has 5.10.
  for (const int fd : {plan.input, plan.output, plan.errors, plan.report}) {
    if (fd > 2 && ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      fail(plan, start_stage::inheritance, errno);
    }
  }
  // We may have raised our limit; a worker that uses select() or walks all descriptors must not see
  // it.
  ::setrlimit(RLIMIT_NOFILE, &plan.descriptor_limit);
  if (plan.directory != nullptr && ::chdir(plan.directory) != 0) {
    fail(plan, start_stage::directory, errno);
  }
  if (!plan.processors.empty()) {
    const std::size_t bytes = plan.processors.size() * sizeof(unsigned long);
    if (::syscall(SYS_sched_setaffinity, 0, bytes, plan.processors.data()) != 0) {
      fail(plan, start_stage::affinity, errno);
    }
  }
  if (plan.has_our_handlers) reset_handlers();
  ::signal(SIGPIPE, SIG_DFL);  // ignored by us, not by the user
  if (plan.ignores_signals_to_all) {
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2})
      ::signal(number, SIG_IGN);
  }
  // The guardian starts with all signals blocked, until it has set them to ignored.
  if (plan.dies_with_parent) ::pthread_sigmask(SIG_SETMASK, &plan.mask, nullptr);
  ::execve(plan.program, const_cast<char* const*>(plan.argv.data()),
           const_cast<char* const*>(plan.environment.data()));
  fail(plan, start_stage::exec, errno);
}

}  // namespace ddprun::launcher
