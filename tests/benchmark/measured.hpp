// What the benchmarks of snapshots share: how long something takes, and how that is printed.
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

// The same for an amount per second.
inline std::string rate(double amount, std::vector<double> seconds) {
  for (double& each : seconds)
    each = amount / each;
  return spread(std::move(seconds));
}

// Takes the value of an option.
using option_value = std::function<void(const char* value)>;
template <typename Number>
option_value into_number(Number& number) {
  return [&number](const char* value) {
    number = static_cast<Number>(std::strtoull(value, nullptr, 10));
  };
}
inline option_value into_text(std::string& text) {
  return [&text](const char* value) { text = value; };
}

// Each word must be one of these, such as "--rounds=", followed by its value; otherwise the usage
// is printed: "[--rounds=N]".
inline void read_options(const char* program, const std::string& usage, int count, char** words,
                         const std::vector<std::pair<std::string, option_value>>& known) {
  for (int at = 1; at < count; ++at) {
    const std::string_view word = words[at];
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const auto& each) { return word.starts_with(each.first); });
    if (found == known.end()) fail(program, std::string("usage: ") + program + " " + usage);
    found->second(words[at] + found->first.size());
  }
}

}  // namespace ddprun::benchmark
