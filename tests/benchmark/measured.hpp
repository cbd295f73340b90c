// What the benchmarks of snapshots share: how long something takes, and how that is told.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::benchmark {

[[noreturn]] inline void fail(const char* program, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program, text.c_str());
  std::exit(1);
}

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "median (least to most)".
inline std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[80];
  std::snprintf(text, sizeof text, "%8.3f (%.3f to %.3f)", values[values.size() / 2],
                values.front(), values.back());
  return text;
}

// The same of so much a second.
inline std::string rate(double amount, std::vector<double> seconds) {
  for (double& each : seconds)
    each = amount / each;
  return spread(std::move(seconds));
}

// What follows `name` ("--rounds=") in the word; null: it is another one.
inline const char* value_after(const std::string& name, const char* word) {
  return std::string_view(word).starts_with(name) ? word + name.size() : nullptr;
}

}  // namespace ddprun::benchmark
