// A number with its noun: "1 node", "3 nodes".
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

inline std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "once", "twice", "3 times".
inline std::string times(std::uint64_t count) {
  if (count == 1) return "once";
  return count == 2 ? "twice" : std::to_string(count) + " times";
}

}  // namespace ddprun
