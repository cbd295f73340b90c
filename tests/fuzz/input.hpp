// What the fuzz targets share: an input that is read as a sequence of choices, and the check that
// ends the process and names its place in the source, which both libFuzzer and replay.cpp treat as
// a crash.
//
// An input that has run out yields zeros, so that every prefix of an input is an input.
//
// Ownership: an input is a view of its caller's bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#define FUZZ_CHECK(expression)                                                                   \
  ((expression) ? void(0)                                                                        \
                : (std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expression), \
                   std::abort()))

namespace ddprun::fuzz {

class input {
 public:
  input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return left_.empty(); }

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  // Below `limit`, which is at most 256.
  std::size_t below(std::size_t limit) { return byte() % limit; }

  std::string_view bytes(std::size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return bytes(left_.size()); }

 private:
  std::string_view left_;
};

}  // namespace ddprun::fuzz
