// This program's own file, and that of ddprun-nccl-id beside it, as they are copied to a host that
// has none.
//
// Thread rule: one thread, that of the executor; the file is read on a thread of its own, once.
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
  std::string problem;      // why there is none; else empty
};

class own_program {
 public:
  using handler = std::function<void(const program_copy& copy)>;

  explicit own_program(boost::asio::any_io_executor executor) : reading_(std::move(executor)) {}

  // Calls `done` from the loop, or from inside where it has been read before.
  void read(handler done);

 private:
  background_task<program_copy> reading_;
  std::vector<handler> waiting_;
  std::optional<program_copy> copy_;
};

// The path of this program; empty: it has none any more.
std::string own_program_path();

// Whether it can run where `uname -m` says `machine`, and the C library is `glibc` ("glibc 2.36",
// empty: another one, or an unknown). Empty, or why it cannot.
std::string why_it_cannot_run(std::string_view machine, std::string_view glibc);

}  // namespace ddprun::launcher::ssh
