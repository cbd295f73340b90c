// How long a test waits for something that normally comes at once: a limit that only a hang
// reaches.
#pragma once

#include <chrono>

namespace ddprun::tests {

inline constexpr std::chrono::minutes patience{5};

}  // namespace ddprun::tests
