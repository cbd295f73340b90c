// The command line, with the letters of nccl-tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace allreduce {

struct arguments {
  std::size_t smallest = 8;         // bytes
  std::size_t largest = 128 << 20;  // bytes
  std::size_t factor = 2;           // between two sizes, at least 2
  std::uint32_t iterations = 20;    // timed
  std::uint32_t warm_ups = 5;
  std::chrono::seconds timeout{60};  // for joining, and for each size
};

extern const char* const usage;

// On failure the result is empty and `problem` says why; `problem` is empty if help was asked for.
std::optional<arguments> read_arguments(int count, char** values, std::string& problem);

}  // namespace allreduce
