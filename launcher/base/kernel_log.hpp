// A kernel_log reads the kernel's log line by line, from the moment it was created.
//
// Each reader has its own position in the log. Containers and ordinary users often may not read it.
//
// Thread rule: one thread at a time. It never waits: if there is no further line, it returns
// nothing.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun::launcher {

class kernel_log {
 public:
  static constexpr const char* system_file = "/dev/kmsg";

  // Another `file` is for tests.
  explicit kernel_log(const std::string& file = system_file);

  bool is_readable() const { return static_cast<bool>(file_); }
  // Skips everything written so far.
  void skip();
  // The text of the next line, without its number and time; empty: there is none yet.
  std::optional<std::string> next();

 private:
  unique_fd file_;
  std::string unread_;
};

// True if processes in the log have the same numbers here, unlike in a container with a PID
// namespace of its own.
bool has_process_numbers_of_kernel_log();

// A caller that reads everything stops after so many lines, because the log may grow as fast as it
// reads.
inline constexpr std::size_t kernel_lines_read_max = 100'000;

}  // namespace ddprun::launcher
