// The texts of --help and --version. The lines of options and timers come from their rows.
#pragma once

#include <string>

namespace ddprun::launcher {

std::string help_text();

// "ddprun 0.1.0"
std::string version_text();

}  // namespace ddprun::launcher
