// The name of a signal, as every message has it.
//
// Thread rule: pure functions.
#pragma once

#include <string>

namespace ddprun {

// "SIGKILL", or "signal 200" for one without a name.
std::string signal_name(int signal);

}  // namespace ddprun
