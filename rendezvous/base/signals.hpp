// Signals: their names, the exit code of a process that one has killed, and whether this process
// ignores one.
//
// Thread rule: any thread.
#pragma once

#include <string>

namespace ddprun {

// "SIGKILL", or "signal 200" for one without a name.
std::string signal_name(int signal);

// The exit code that a shell reports for a process killed by `signal`, 1 to 127.
constexpr int exit_code_of_signal(int signal) {
  return 128 + signal;
}

// The parent may have made us ignore it, as nohup does with SIGHUP.
bool is_ignored(int signal);

}  // namespace ddprun
