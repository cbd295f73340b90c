// An exit_status tells how a process ended: by an exit code or by a signal.
//
// It is not the shell's number: that is 137 for both exit(137) and SIGKILL.
#pragma once

#include <string>

namespace ddprun::launcher {

struct exit_status {
  int code = 0;              // 0 to 255; meaningless if `signal` is set
  int signal = 0;            // 0: it has exited
  bool core_dumped = false;  // only with a signal

  bool operator==(const exit_status&) const = default;

  bool success() const { return signal == 0 && code == 0; }

  // "exit code 3", "killed by SIGSEGV (core dumped)".
  std::string describe() const;
};

}  // namespace ddprun::launcher
