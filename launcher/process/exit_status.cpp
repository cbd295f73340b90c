#include "launcher/process/exit_status.hpp"

#include "rendezvous/base/signals.hpp"

namespace ddprun::launcher {

std::string exit_status::describe() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  return "killed by " + signal_name(signal) + (core_dumped ? " (core dumped)" : "");
}

}  // namespace ddprun::launcher
