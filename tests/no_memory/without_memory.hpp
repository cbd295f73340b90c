// Runs a step, and all of the loop that is ready then, while allocations fail: the nth of them, or
// `count` from the nth on, for each n until none fails any more.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/failing_allocations.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <new>

namespace ddprun::tests {

// True where an allocation failed. What leaves a handler is given up, as in net::run_loop.
template <typename Step>
bool without_memory(boost::asio::io_context& io, std::size_t before, std::size_t count, Step step) {
  if (io.stopped()) io.restart();
  const failing_allocations failing(before, count);
  step();
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = io.poll_one() != 0;
    } catch (const std::bad_alloc&) {
      // The next one, then.
    }
  }
  return failing.any();
}

inline bool without_memory(boost::asio::io_context& io, std::size_t before, std::size_t count) {
  return without_memory(io, before, count, [] {});
}

// Calls `attempt(before)` with 0, 1, 2, ... until it says that nothing failed.
template <typename Attempt>
void fail_each_allocation(std::size_t count, Attempt attempt) {
  bool has_failed = true;
  for (std::size_t before = 0; has_failed; ++before) {
    CAPTURE(count, before);
    has_failed = attempt(before);
  }
}

}  // namespace ddprun::tests
