// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/), 64 bits: the same on all machines and in all
// versions. It is not cryptographic.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun::launcher {

inline std::uint64_t fnv_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char each : text)
    hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211U;
  return hash;
}

}  // namespace ddprun::launcher
