// A value that nobody can guess and that no other process has: for tokens, marks and seeds.
#pragma once

#include <sys/random.h>
#include <type_traits>

namespace ddprun::launcher {

// Of the kernel's random bytes. At boot it waits until there are any.
template <typename Value>
Value random_value() {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value drawn{};
  // In one piece up to 256 bytes; a signal may come before them.
  static_assert(sizeof drawn <= 256);
  while (::getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn)) {
  }
  return drawn;
}

}  // namespace ddprun::launcher
