// Makes operator new fail, as it does where a process has no memory left: which step was
// interrupted must not matter. In the program no_memory_tests only: it replaces operator new.
//
// Thread rule: what the constructing thread allocates fails, what others allocate does not.
#pragma once

#include <cstddef>
#include <limits>

namespace ddprun::tests {

class failing_allocations {
 public:
  static constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

  // The next `before` allocations succeed, the `count` after those fail.
  explicit failing_allocations(std::size_t before, std::size_t count = all);
  ~failing_allocations();
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;

  // Whether one has failed so far.
  bool any() const;
};

}  // namespace ddprun::tests
