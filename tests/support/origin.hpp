// The moment at which the tests of pure machines begin: any, but not the clock's zero.
#pragma once

#include "rendezvous/base/time.hpp"

namespace ddprun::tests {

inline constexpr time_point origin{std::chrono::hours(1000)};

}  // namespace ddprun::tests
