#include "examples/common/digits.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace examples {
namespace {

constexpr std::size_t test_every = 5;
constexpr int brightest = 16;

// Parses "0,0,5,...,9": 64 pixels, then the digit.
bool read_line(const std::string& line, digits& into) {
  std::istringstream numbers(line);
  std::vector<int> values;
  for (std::string number; std::getline(numbers, number, ',');) {
    std::size_t used = 0;
    values.push_back(std::stoi(number, &used));
    if (used != number.size()) return false;
  }
  if (values.size() != pixels + 1 || values.back() < 0 || values.back() > 9) return false;
  for (std::size_t at = 0; at < pixels; ++at) {
    into.images.push_back(static_cast<float>(values[at]) / brightest);
  }
  into.labels.push_back(values.back());
  return true;
}

}  // namespace

data_set read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read the digits " + path + ": " + std::strerror(errno) +
                             "; ./tests/setup makes .cache/digits.csv, --data or DDPRUN_DIGITS "
                             "says where it is");
  }
  data_set result;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    bool good = false;
    try {
      good = read_line(line, number % test_every == 0 ? result.test : result.train);
    } catch (const std::logic_error&) {  // stoi: not a number, or too large
    }
    if (!good) {
      throw std::runtime_error(path + ", line " + std::to_string(number + 1) +
                               ": not 64 pixels and a digit; run ./tests/setup to create it again");
    }
  }
  if (result.test.labels.empty() || result.train.labels.empty()) {
    throw std::runtime_error(path + " is empty; run ./tests/setup to create it again");
  }
  return result;
}

}  // namespace examples
