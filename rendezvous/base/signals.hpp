// What is said of signals everywhere: their names, what a process exits with that ends by one, and
// whether this one ignores it.
//
// Thread rule: any thread.
#pragma once

#include <string>

namespace ddprun {

// "SIGKILL", or "signal 200" for one without a name.
std::string signal_name(int signal);

// What a shell says of a process that was killed by `signal`, 1 to 127.
constexpr int exit_code_of_signal(int signal) {
  return 128 + signal;
}

// The parent may have had it ignored, as nohup has SIGHUP.
bool is_ignored(int signal);

}  // namespace ddprun
