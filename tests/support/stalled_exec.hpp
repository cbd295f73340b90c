// A program on which exec hangs, like one on a file system that does not answer.
//
// We hold a write lease on the file, so the kernel blocks opening it, and thus exec, until we
// release the lease or for /proc/sys/fs/lease-break-time (45 s). This needs no privileges. Unlike
// with a dead NFS server, the waiting process can be killed.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>

namespace ddprun {

class stalled_exec {
 public:
  explicit stalled_exec(const std::string& script) {
    char name[] = "/tmp/ddprun_stalled_XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    std::ofstream(program()) << "#!/bin/sh\n" << script << "\n";
    ::chmod(program().c_str(), 0755);
    ::signal(SIGIO, SIG_IGN);  // the kernel's request to release the lease
    lease_ = unique_fd(::open(program().c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::fcntl(lease_.get(), F_SETLEASE, F_WRLCK) == 0);
  }
  ~stalled_exec() {
    lease_.reset();
    std::filesystem::remove_all(folder_);
    ::signal(SIGIO, SIG_DFL);
  }
  stalled_exec(const stalled_exec&) = delete;
  stalled_exec& operator=(const stalled_exec&) = delete;

  const std::string& folder() const { return folder_; }
  std::string program() const { return folder_ + "/program"; }
  void let_go() { lease_.reset(); }

  // True while a process hangs there: the kernel then wants the lease back.
  bool is_waited_for() const { return ::fcntl(lease_.get(), F_GETLEASE) != F_WRLCK; }

 private:
  std::string folder_;
  unique_fd lease_;
};

}  // namespace ddprun
