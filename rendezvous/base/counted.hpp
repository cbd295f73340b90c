// A number and what is counted, in a sentence: "1 node", "3 nodes".
//
// Thread rule: pure function.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

inline std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace ddprun
