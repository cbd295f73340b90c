// The handwritten digits of scikit-learn: 1,797 pictures of 8x8 pixels, each with its digit.
//
// Every fifth picture is for the test, the others are for training: the same split on every rank
// and in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace examples {

constexpr std::size_t pixels = 64;

struct digits {
  std::vector<float> images;         // `pixels` values of 0 to 1 for each picture
  std::vector<std::int64_t> labels;  // 0 to 9
};

struct data_set {
  digits train;
  digits test;
};

// Throws std::runtime_error, which names the file and what to do.
data_set read_digits(const std::string& path);

}  // namespace examples
