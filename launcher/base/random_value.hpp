// A value that nobody can guess and no other process has, for tokens, marks and seeds.
#pragma once

#include <sys/random.h>
#include <type_traits>

namespace ddprun::launcher {

// Taken from the kernel's random bytes; early at boot it waits for them.
template <typename Value>
Value random_value() {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value drawn{};
  // Up to 256 bytes are returned in one piece; a signal may interrupt before that.
  static_assert(sizeof drawn <= 256);
  while (::getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn)) {
  }
  return drawn;
}

}  // namespace ddprun::launcher
