// Chooses how many cases of an exhaustive or randomised test run. A test numbers its cases from 0
// and asks here which of them to run: all of them in tests/run's `thorough`, which sets
// DDPRUN_TEST_EFFORT=thorough; otherwise (`quick`) a sample, and under a sanitizer a quarter of
// that. The sample is spread over all cases and differs from run to run, so that every case is run
// some time. Its seed is printed when it is first drawn; DDPRUN_SEED=N repeats the sample of that
// run.
//
// A test of a sample must hold for each case. A test that needs some of its cases to fail (such as
// a checker's own) runs all.
//
// Thread rule: any thread, as long as none changes the environment.
#pragma once

#include "tests/support/sanitized.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::tests {

// Throws std::runtime_error for an unknown value of DDPRUN_TEST_EFFORT.
inline bool is_thorough() {
  const char* const text = std::getenv("DDPRUN_TEST_EFFORT");
  const std::string_view word = text == nullptr ? "" : text;
  if (word == "thorough") return true;
  if (word.empty() || word == "quick") return false;
  throw std::runtime_error("DDPRUN_TEST_EFFORT is \"" + std::string(word) +
                           "\": it may be quick or thorough");
}

// DDPRUN_SEED, or a seed that is drawn once for each process. It is printed either way. Throws
// std::runtime_error if DDPRUN_SEED is not a number.
inline std::uint64_t sample_seed() {
  static const std::uint64_t seed = [] {
    std::uint64_t value = std::random_device()();
    if (const char* const text = std::getenv("DDPRUN_SEED"); text != nullptr && *text != '\0') {
      const std::string_view word = text;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size()) {
        throw std::runtime_error("DDPRUN_SEED is \"" + std::string(word) + "\": it is a number");
      }
    }
    std::fprintf(stderr, "samples of tests: DDPRUN_SEED=%llu\n",
                 static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

// Draws `most` of the numbers below `count`, in order: one from each of `most` stretches of equal
// length. Returns all numbers if `most` is `count` or more.
inline std::vector<std::uint64_t> spread_sample(std::uint64_t count, std::uint64_t most,
                                                std::uint64_t seed) {
  most = std::min(most, count);
  std::vector<std::uint64_t> sample;
  std::mt19937_64 random(seed);
  for (std::uint64_t index = 0; index < most; ++index) {
    // Avoid a product, which could overflow: the first count % most stretches are one longer.
    const std::uint64_t length = count / most;
    const std::uint64_t longer = count % most;
    const std::uint64_t from = index * length + std::min(index, longer);
    sample.push_back(from + random() % (length + (index < longer ? 1 : 0)));
  }
  return sample;
}

// The cases to run, of 0 to count - 1.
inline std::vector<std::uint64_t> cases_to_take(std::uint64_t count, std::uint64_t quick_most) {
  if (is_thorough()) return spread_sample(count, count, 0);
  const std::uint64_t most = is_sanitized ? (quick_most + 3) / 4 : quick_most;
  return most >= count ? spread_sample(count, count, 0) : spread_sample(count, most, sample_seed());
}

}  // namespace ddprun::tests
