#include "launcher/process/boost_spawner.hpp"

#include "launcher/process/child_launcher.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/process/pty.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun::launcher {
namespace {

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

// For a child without a pidfd. It was just forked and dies at once; one that hangs already is left
// to the stray_reaper.
void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  for (int look = 0; look < 100 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++look) {
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

// The report pipe ends when the child has executed its program or is gone.
start_report read_report(int fd) {
  start_report report{};
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

result<pipe_ends> make_ends(const std::optional<terminal_size>& terminal) {
  if (terminal) {
    if (auto made = make_pty(*terminal)) return made;
  }
  return make_pipe();
}

result<child_pipes> make_pipes(const spawn_request& request) {
  auto report = make_pipe();
  if (!report) return report.error();
  if (!request.capture) return child_pipes{{}, {}, std::move(*report)};
  auto output = make_ends(request.output_terminal);
  if (!output) return output.error();
  auto errors = make_ends(request.errors_terminal);
  if (!errors) return errors.error();
  return child_pipes{std::move(*output), std::move(*errors), std::move(*report)};
}

}  // namespace

struct boost_spawner::child : std::enable_shared_from_this<boost_spawner::child> {
  child(const asio::any_io_executor& executor, pid_t id, spawn_handlers called)
      : pid(id), pidfd(executor), report(executor), handlers(std::move(called)) {}

  pid_t pid;
  asio::posix::stream_descriptor pidfd;
  asio::posix::stream_descriptor report;
  spawn_handlers handlers;
  std::optional<start_failure> failure;  // set once the child has reported one
  std::string program, directory;        // for the message
};

boost_spawner::boost_spawner(asio::any_io_executor executor) : executor_(std::move(executor)) {
  // Creates the context's reactor now. Otherwise the first spawn does it, and if descriptors run
  // out in the middle, Asio 1.26 leaks those that it has opened.
  const asio::posix::stream_descriptor first(executor_);
  ::getrlimit(RLIMIT_NOFILE, &descriptor_limit_);
}

boost_spawner::~boost_spawner() = default;

spawn_result boost_spawner::spawn(const spawn_request& request, spawn_handlers handlers) {
  DDPRUN_ASSERT(!request.argv.empty());
  const std::string& program = request.program.empty() ? request.argv.front() : request.program;
  const auto failed = [&](start_stage stage, int error) {
    start_failure failure;
    failure.stage = stage;
    failure.error = error;
    failure.program = request.argv.front();
    failure.directory = request.directory;
    return failure;
  };
  auto pipes = make_pipes(request);
  if (!pipes) return failed(start_stage::descriptors, pipes.error().value());
  child_plan plan = make_child_plan(request, program);
  plan.output = request.capture ? pipes->output.write.get() : request.standard_output;
  plan.errors = request.capture ? pipes->errors.write.get() : request.standard_error;
  plan.report = pipes->report.write.get();
  plan.descriptor_limit = descriptor_limit_;

  child_launcher launch;
  error_code error = launch(plan);
  if (error) {
    const bool no_process = error.value() == EAGAIN || error.value() == ENOMEM;
    return failed(no_process ? start_stage::fork : start_stage::descriptors, error.value());
  }
  const pid_t pid = launch.pid;
  const auto started = keep(pid, std::move(launch.handle), std::move(handlers), error);
  set_nonblocking(pipes->report.read.get());
  if (started) started->report.assign(pipes->report.read.get(), error);
  if (error) {
    children_.erase(pid);
    kill_and_reap(pid);
    return failed(start_stage::descriptors, error.value());
  }
  pipes->report.read.release();
  started->program = request.argv.front();
  started->directory = request.directory;
  await_report(started);
  return spawned_child{pid, std::move(pipes->output.read), std::move(pipes->errors.read)};
}

bool boost_spawner::adopt(pid_t pid, ended_handler ended) {
  spawn_handlers handlers;
  handlers.ended = std::move(ended);
  unique_fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  error_code error;
  const auto adopted = keep(pid, std::move(handle), std::move(handlers), error);
  if (error) {
    children_.emplace(pid, nullptr);  // reap() still works
    return false;
  }
  await_end(adopted);
  return true;
}

std::shared_ptr<boost_spawner::child> boost_spawner::keep(pid_t pid, unique_fd handle,
                                                          spawn_handlers handlers,
                                                          error_code& error) {
  auto kept = std::make_shared<child>(executor_, pid, std::move(handlers));
  kept->pidfd.assign(handle.get(), error);
  if (error) return nullptr;
  handle.release();
  children_.emplace(pid, kept);
  return kept;
}

void boost_spawner::await_report(const std::shared_ptr<child>& started) {
  started->report.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(std::weak_ptr(started), [this, &told = *started](error_code error) {
        if (!error) told_start(told);
      }));
}

void boost_spawner::told_start(child& started) {
  const start_report report = read_report(started.report.native_handle());
  error_code ignored;
  started.report.close(ignored);
  if (report.error != 0) {
    started.failure = start_failure{report.stage,
                                    report.error,
                                    started.program,
                                    started.directory,
                                    report.program_is_there,
                                    report.program_may_execute};
  }
  await_end(started.shared_from_this());
  // Moved out: the handler may destroy the spawner.
  const auto executed = std::move(started.handlers.executed);
  if (report.error == 0 && executed) executed();
}

void boost_spawner::await_end(const std::shared_ptr<child>& started) {
  started->pidfd.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(std::weak_ptr(started), [this, &over = *started](error_code error) {
        if (!error) told_end(over);
      }));
}

void boost_spawner::told_end(child& over) {
  const spawn_handlers handlers = std::move(over.handlers);
  const pid_t pid = over.pid;
  if (over.failure) {
    const start_failure failure = *over.failure;
    reap(pid);
    if (handlers.failed) handlers.failed(failure);
    return;
  }
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  handlers.ended(pid, to_exit_status(info));
}

void boost_spawner::signal_group(pid_t pid, int signal) {
  if (!owns(pid)) return;
  // A child that was just forked has no group of its own yet.
  if (::kill(-pid, signal) != 0 && errno == ESRCH) ::kill(pid, signal);
}

std::vector<pid_t> boost_spawner::living_groups(const std::vector<pid_t>& groups) {
  for (const pid_t group : groups) {
    // Orphans of the group that are our children would stay zombies in it.
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
  }
  return running_groups(groups);
}

void boost_spawner::reap(pid_t pid) {
  if (children_.erase(pid) == 0) return;
  ::waitpid(pid, nullptr, 0);
}

bool boost_spawner::reap_within(pid_t pid, duration limit) {
  const auto found = children_.find(pid);
  if (found == children_.end()) return true;
  const auto until = std::chrono::steady_clock::now() + limit;
  if (!found->second) {  // an adopted child without a pidfd
    while (!is_dead(pid)) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } else {
    pollfd handle{found->second->pidfd.native_handle(), POLLIN, 0};
    while (handle.revents == 0) {
      const auto left = until - std::chrono::steady_clock::now();
      const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      const int ready = ::poll(&handle, 1, static_cast<int>(std::max<long>(0, rounded)));
      if (ready == 0 || (ready < 0 && errno != EINTR)) return false;
    }
  }
  reap(pid);
  return true;
}

}  // namespace ddprun::launcher
