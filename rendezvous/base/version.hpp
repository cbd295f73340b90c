// The version of ddprun: what --version prints and what agents and daemons tell each other. The
// build reads it from here.
#pragma once

#include <string_view>

namespace ddprun {

inline constexpr std::string_view version = "0.1.0";

}  // namespace ddprun
