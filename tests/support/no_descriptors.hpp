// Limits this process to 256 descriptors and uses all of them up, until it is destroyed.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <vector>

namespace ddprun::tests {

class no_descriptors {
 public:
  no_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    take();
  }
  ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  no_descriptors(const no_descriptors&) = delete;
  no_descriptors& operator=(const no_descriptors&) = delete;

  void take() {
    for (int fd = 0; fd >= 0; fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
      if (fd != 0) taken_.emplace_back(fd);
    }
  }
  void give_back(std::size_t count) { taken_.resize(taken_.size() - count); }
  void give_all_back() { taken_.clear(); }

 private:
  rlimit before_{};
  std::vector<unique_fd> taken_;
};

}  // namespace ddprun::tests
