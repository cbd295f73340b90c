#include "rendezvous/base/signals.hpp"

#include <cstring>

namespace ddprun {

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  if (name == nullptr) return "signal " + std::to_string(signal);
  return std::string("SIG") + name;
}

}  // namespace ddprun
