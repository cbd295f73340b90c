// A launcher of Boost.Process v2 beside its own ones (default, pdfork, vfork, fork_and_forget): it
// forks, and returns at once.
//
// Boost's default_launcher must not be used in a process with threads that may not wait:
// - In the child, it tells the execution context of the fork, and that copies its list of services
//   to the heap. Where another thread held the heap's lock at that moment, and the allocator does
//   not put it right as glibc's does (those of sanitizers, some that are preloaded), the child
//   hangs there for ever.
// - In the parent, it waits for the child's exec, so for a file system that hangs, and for the
//   child above.
// - The context registers every socket in it anew: 9,000 sockets made a spawn 21.8 ms.
// - After a failed exec it leaves with exit(), which prints the parent's buffered output again.
//
// The handle of the child comes with it (CLONE_PIDFD), and no handler of pthread_atfork runs. Where
// a sandbox hides clone3 (ENOSYS), or the kernel is older than 5.5, fork and pidfd_open do the same
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
  // Forks; the child does what `plan` says. Sets `pid` and `handle`. Errors: EAGAIN and ENOMEM: no
  // process; EMFILE and ENFILE: no descriptor; nothing of the child is left.
  error_code operator()(child_plan& plan);

  unique_fd handle;  // pidfd of the child
};

}  // namespace ddprun::launcher
