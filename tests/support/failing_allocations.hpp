// Makes operator new fail, as in a process that has no memory left, so that a test can interrupt
// every step. Only the program no_memory_tests can use it, because it replaces operator new.
//
// Thread rule: only allocations of the constructing thread fail.
#pragma once

#include <cstddef>
#include <limits>

namespace ddprun::tests {

class failing_allocations {
 public:
  static constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

  // The next `before` allocations succeed, and the `count` after those fail.
  explicit failing_allocations(std::size_t before, std::size_t count = all);
  ~failing_allocations();
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;

  // True if an allocation has failed so far.
  bool any() const;
};

}  // namespace ddprun::tests
