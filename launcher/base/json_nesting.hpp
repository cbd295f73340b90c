// Nesting that JSON of others may have: a worker's error file, the words of another node.
//
// nlohmann::json copies and writes a value by one call for each level, so what is nested without
// end would take the whole stack, and end this process.
#pragma once

namespace ddprun::launcher {

inline constexpr int nesting_max = 100;

// A callback for parse(): what is nested deeper is left out.
inline constexpr auto not_too_nested = [](int depth, auto /*event*/, auto& /*value*/) {
  return depth <= nesting_max;
};

}  // namespace ddprun::launcher
