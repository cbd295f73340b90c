// A kernel_log reads the kernel's log, line by line: what it says after this was made.
//
// Each reader has its own place in the log. Containers and ordinary users often may not read it.
//
// Thread rule: one thread at a time. It never waits: where there is no further line, it says so.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun::launcher {

class kernel_log {
 public:
  static constexpr const char* system_file = "/dev/kmsg";

  // `file`: another one is for tests.
  explicit kernel_log(const std::string& file = system_file);

  bool is_readable() const { return static_cast<bool>(file_); }
  // What has been written until now is left out.
  void skip();
  // The text of the next line, without its number and time; none: there is none yet.
  std::optional<std::string> next();

 private:
  unique_fd file_;
  std::string unread_;
};

// Whether the processes that the log names have the same numbers here: not in a container with
// process numbers of its own.
bool has_process_numbers_of_kernel_log();

// A call that reads all there is stops after so many lines: the log may grow as fast.
inline constexpr std::size_t kernel_lines_read_max = 100'000;

}  // namespace ddprun::launcher
