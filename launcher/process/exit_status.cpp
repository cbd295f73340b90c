#include "launcher/process/exit_status.hpp"

#include <string.h>

namespace ddprun {

std::string exit_status::describe() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  return "killed by " + signal_name(signal) + (core_dumped ? " (core dumped)" : "");
}

std::string signal_name(int signal) {
  const char* short_name = ::sigabbrev_np(signal);
  if (short_name == nullptr) return "signal " + std::to_string(signal);
  return std::string("SIG") + short_name;
}

}  // namespace ddprun
