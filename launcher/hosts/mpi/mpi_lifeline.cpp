#include "launcher/hosts/mpi/mpi_lifeline.hpp"

#include "launcher/hosts/mpi/ancestors.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::hosts::mpi {
namespace {

constexpr int look_again_ms = 1000;

// If another process has got its number meanwhile, that one is not an ancestor.
bool is_above(int launcher) {
  const ancestors above = own_ancestors();
  return std::any_of(above.begin(), above.end(),
                     [&](const ancestor& process) { return process.pid == launcher; });
}

}  // namespace

lifeline::lifeline(int launcher) {
  if (launcher <= 0) return;
  auto ends = make_pipe();
  if (!ends) return;
  end_ = std::move(*ends);
  process_ = unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, launcher, 0)));
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  waiting_ = std::thread([this, launcher] { wait(launcher); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

lifeline::~lifeline() {
  end_.write.reset();
  if (waiting_.joinable()) waiting_.join();
}

void lifeline::wait(int launcher) const {
  // poll() ignores a descriptor of -1.
  pollfd waited[] = {{end_.read.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
  while (is_above(launcher)) {
    const int ready = ::poll(waited, 2, process_ ? -1 : look_again_ms);
    if (ready < 0 && errno != EINTR) return;
    if (ready > 0 && waited[0].revents != 0) return;
    if (ready > 0 && waited[1].revents != 0) break;
  }
  ::kill(::getpid(), SIGTERM);
}

}  // namespace ddprun::launcher::hosts::mpi
