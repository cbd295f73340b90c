// The nesting allowed in JSON from others: a worker's error file, a message of another node.
//
// nlohmann::json copies and writes values recursively, so unlimited nesting would overflow the
// stack and kill this process.
#pragma once

namespace ddprun::launcher {

inline constexpr int nesting_max = 100;

// A callback for parse() that drops deeper values.
inline constexpr auto not_too_nested = [](int depth, auto /*event*/, auto& /*value*/) {
  return depth <= nesting_max;
};

}  // namespace ddprun::launcher
