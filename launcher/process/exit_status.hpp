// An exit_status is how a process ended, as a value: by an exit code or by a signal.
//
// Not the shell's number: 137 may be exit(137) or SIGKILL, and here they differ.
#pragma once

#include <string>

namespace ddprun::launcher {

struct exit_status {
  int code = 0;              // 0 to 255; meaningless when `signal` is set
  int signal = 0;            // 0: left by exit
  bool core_dumped = false;  // only with a signal

  bool operator==(const exit_status&) const = default;

  bool success() const { return signal == 0 && code == 0; }

  // "exit code 3", "killed by SIGSEGV (core dumped)".
  std::string describe() const;
};

}  // namespace ddprun::launcher
