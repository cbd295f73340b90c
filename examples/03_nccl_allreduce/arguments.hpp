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
  std::size_t factor = 2;           // from one size to the next, at least 2
  std::uint32_t iterations = 20;    // timed
  std::uint32_t warm_ups = 5;
  std::chrono::seconds timeout{60};  // for the ranks to come, and for each size
};

extern const char* const usage;

// None: `problem` says why; empty, the help was asked for.
std::optional<arguments> read_arguments(int count, char** values, std::string& problem);

}  // namespace allreduce
