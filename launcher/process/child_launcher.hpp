// A launcher for Boost.Process v2, beside its own ones (default, pdfork, vfork, fork_and_forget),
// that returns right after the fork.
//
// Boost's default_launcher must not be used in a process with threads that must not block:
// - In the child, it notifies the execution context of the fork, which copies its list of services
//   to the heap. If another thread held the heap's lock at that moment, and the allocator does not
//   repair it as glibc's does (sanitizers and some preloaded ones do not), the child hangs forever.
// - In the parent, it waits for the child's exec, so for a file system that hangs, and for the
//   child above.
// - The context registers each of its sockets again: with 9,000 sockets a spawn took 21.8 ms.
// - After a failed exec it calls exit(), which prints the parent's buffered output again.
//
// The child's pidfd comes with the fork (CLONE_PIDFD), and no pthread_atfork handler runs. If a
// sandbox hides clone3 (ENOSYS), or the kernel is older than 5.5, fork and pidfd_open do the same
// in two steps.
//
// Thread rule: the thread that is the child's parent for PR_SET_PDEATHSIG.
#pragma once

#include "launcher/process/child_setup.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/detail/throw_error.hpp>  // the next one forgets it
#include <boost/process/v2/posix/default_launcher.hpp>

namespace ddprun::launcher {

class child_launcher : public boost::process::v2::posix::default_launcher {
 public:
  // Forks; the child does what `plan` says. Sets `pid` and `handle`. Errors: EAGAIN and ENOMEM if
  // there is no process, EMFILE and ENFILE if there is no descriptor. Then nothing of the child is
  // left.
  error_code operator()(child_plan& plan);

  unique_fd handle;  // pidfd of the child
};

}  // namespace ddprun::launcher
