#include "launcher/process/boost_spawner.hpp"

#include "launcher/process/child_setup.hpp"
#include "launcher/process/find_program.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/net/signals_blocked.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/optional.hpp>
#include <boost/process/v2/default_launcher.hpp>
#include <boost/process/v2/process.hpp>

#include <cerrno>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace asio = boost::asio;
namespace process = boost::process::v2;

namespace ddprun {
namespace {

// Runs our child from inside Boost's launcher, at the one point that it offers in the child.
struct child_initializer {
  const child_plan& plan;

  template <typename Launcher>
  error_code on_exec_setup(Launcher&, const process::filesystem::path&, const char* const*&) {
    run_child(plan);
  }
};

exit_status to_exit_status(const siginfo_t& info) {
  exit_status status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.core_dumped = info.si_code == CLD_DUMPED;
  }
  return status;
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The report pipe is at its end once the child has executed its program or is gone.
start_report read_report(int fd) {
  start_report report{start_stage::exec, 0};
  ssize_t count;
  do {
    count = ::read(fd, &report, sizeof(report));
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof(report))) report.error = 0;
  return report;
}

struct child_pipes {
  pipe_ends output;
  pipe_ends errors;
  pipe_ends report;
};

result<child_pipes> make_pipes(bool capture) {
  child_pipes pipes;
  for (pipe_ends* ends : {&pipes.report, &pipes.output, &pipes.errors}) {
    if (ends != &pipes.report && !capture) continue;
    auto made = make_pipe();
    if (!made) return made.error();
    *ends = std::move(*made);
  }
  return pipes;
}

// Forks and executes; on an error nothing of it is left.
pid_t launch(asio::io_context& context, child_plan& plan, error_code& error) {
  process::posix::default_launcher launcher;
  try {
    const signals_blocked blocked;
    plan.mask = blocked.before();
    const process::filesystem::path executable(plan.program);
    const char** arguments = plan.argv.data();
    auto started =
        launcher(context.get_executor(), error, executable, arguments, child_initializer{plan});
    // Its destructor would kill and wait.
    if (!error) started.detach();
    return launcher.pid;
  } catch (const boost::system::system_error& exception) {
    // No descriptor was left for Boost's own handle of the child.
    error = exception.code();
    if (launcher.pid > 0) kill_and_reap(launcher.pid);
    return -1;
  }
}

}  // namespace

struct boost_spawner::child {
  child(const asio::any_io_executor& executor, pid_t id, int handle, ended_handler handler)
      : pid(id), pidfd(executor, handle), ended(std::move(handler)) {}

  pid_t pid;
  asio::posix::stream_descriptor pidfd;
  ended_handler ended;
};

boost_spawner::boost_spawner(asio::any_io_executor executor)
    : executor_(std::move(executor)), fork_context_(1) {
  // Makes the context's reactor now. Boost would at the first spawn, and where descriptors run out
  // in the middle of that, Asio 1.26 leaks those that it has opened.
  const asio::posix::stream_descriptor first(fork_context_);
  ::getrlimit(RLIMIT_NOFILE, &descriptor_limit_);
}

boost_spawner::~boost_spawner() = default;

spawn_result boost_spawner::spawn(const spawn_request& request, ended_handler ended) {
  DDPRUN_ASSERT(!request.argv.empty());
  const auto failed = [&](start_stage stage, int error) {
    return start_failure{stage, error, request.argv.front(), request.directory};
  };
  const auto program = find_program(request.argv.front(), request.environment);
  if (!program) return failed(start_stage::find, ENOENT);

  auto pipes = make_pipes(request.capture);
  if (!pipes) return failed(start_stage::descriptors, pipes.error().value());
  child_plan plan = make_child_plan(request, *program);
  plan.output = pipes->output.write.get();
  plan.errors = pipes->errors.write.get();
  plan.report = pipes->report.write.get();
  plan.descriptor_limit = descriptor_limit_;

  error_code error;
  const pid_t pid = launch(fork_context_, plan, error);
  if (error) {
    const bool no_process = error.value() == EAGAIN || error.value() == ENOMEM;
    return failed(no_process ? start_stage::fork : start_stage::descriptors, error.value());
  }
  pipes->report.write.reset();
  const start_report report = read_report(pipes->report.read.get());
  if (report.error != 0) {
    kill_and_reap(pid);
    return failed(report.stage, report.error);
  }
  if (!watch(pid, std::move(ended))) {
    const int reason = errno;
    kill_and_reap(pid);
    return failed(start_stage::descriptors, reason);
  }
  return spawned_child{pid, std::move(pipes->output.read), std::move(pipes->errors.read)};
}

void boost_spawner::adopt(pid_t pid, ended_handler ended) {
  // Without a handle its end goes unseen, no more: reap() still works.
  if (!watch(pid, std::move(ended))) children_.emplace(pid, nullptr);
}

bool boost_spawner::watch(pid_t pid, ended_handler ended) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (handle < 0) return false;
  const auto watched = std::make_shared<child>(executor_, pid, handle, std::move(ended));
  children_.emplace(pid, watched);
  watched->pidfd.async_wait(
      asio::posix::stream_descriptor::wait_read, [weak = std::weak_ptr(watched)](error_code error) {
        const auto self = weak.lock();
        if (error || !self) return;
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(self->pid), &info, WEXITED | WNOWAIT);
        // Moved out: the handler may destroy the spawner, and us with it.
        const auto handler = std::move(self->ended);
        handler(self->pid, to_exit_status(info));
      });
  return true;
}

void boost_spawner::signal_group(pid_t pid, int signal) {
  if (owns(pid)) ::kill(-pid, signal);
}

bool boost_spawner::group_lives(pid_t pid) {
  while (::waitpid(-pid, nullptr, WNOHANG) > 0) {
  }
  return group_runs(pid);
}

void boost_spawner::reap(pid_t pid) {
  if (children_.erase(pid) == 0) return;
  ::waitpid(pid, nullptr, 0);
}

}  // namespace ddprun
