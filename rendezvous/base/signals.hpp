// What is said of signals everywhere: their names, and what a process exits with that ends by one.
//
// Thread rule: pure functions.
#pragma once

#include <string>

namespace ddprun {

// "SIGKILL", or "signal 200" for one without a name.
std::string signal_name(int signal);

// What a shell says of a process that was killed by `signal`, 1 to 127.
constexpr int exit_code_of_signal(int signal) {
  return 128 + signal;
}

}  // namespace ddprun
