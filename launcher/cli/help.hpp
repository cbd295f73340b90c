// The texts of --help and --version. Written by hand, at most 100 columns wide; a test keeps them
// complete.
//
// Thread rule: constants.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

std::string help_text();

// "ddprun 0.1.0"
std::string version_text();

}  // namespace ddprun
