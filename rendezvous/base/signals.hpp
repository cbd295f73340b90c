// Signals: their names, the exit code of a process that one has killed, whether this process
// ignores one, and how it outlives the one of the limit of file size.
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

// From now on a write beyond the limit of file size (ulimit -f) fails with EFBIG, as one to a full
// disk fails; by default, SIGXFSZ ends the process. Programs that this process executes find the
// signal as it was before. Call it before threads exist.
void outlive_file_size_limit();

}  // namespace ddprun
