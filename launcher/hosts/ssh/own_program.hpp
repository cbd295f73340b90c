// This program's own file, and that of ddprun-nccl-id beside it, for hosts that have no ddprun.
//
// Thread rule: the executor's thread; the files are read once, on a thread of their own.
#pragma once

#include "launcher/process/background_task.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

struct program_copy {
  struct file {
    std::string name;
    std::string bytes;
    std::string sha256;  // in hexadecimal
  };
  std::vector<file> files;  // the first is ddprun
  std::string problem;      // why there is no copy; empty: there is one
};

class own_program {
 public:
  using handler = std::function<void(const program_copy& copy)>;

  explicit own_program(boost::asio::any_io_executor executor) : reading_(std::move(executor)) {}

  // Calls `done` from the loop, or before it returns if the files have been read already.
  void read(handler done);

 private:
  background_task<program_copy> reading_;
  std::vector<handler> waiting_;
  std::optional<program_copy> copy_;
};

// The path of this program. Empty: it cannot be read.
std::string own_program_path();

// Whether this program can run on a host where `uname -m` prints `machine` and `getconf
// GNU_LIBC_VERSION` prints `glibc` ("glibc 2.36"; empty: another C library or unknown). Returns why
// it cannot, empty if it can.
std::string why_it_cannot_run(std::string_view machine, std::string_view glibc);

}  // namespace ddprun::launcher::ssh
