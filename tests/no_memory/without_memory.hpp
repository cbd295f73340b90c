// Runs a step, and all handlers of the loop that are ready then, while allocations fail: the nth
// one, or `count` from the nth on, for each n until none fails any more.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/failing_allocations.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <new>

namespace ddprun::tests {

// True if an allocation failed. An exception that leaves a handler ends only that handler, as in
// net::run_loop.
template <typename Step>
bool without_memory(boost::asio::io_context& io, std::size_t before, std::size_t count, Step step) {
  if (io.stopped()) io.restart();
  const failing_allocations failing(before, count);
  step();
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = io.poll_one() != 0;
    } catch (const std::bad_alloc&) {
      // Go on with the next handler.
    }
  }
  return failing.any();
}

inline bool without_memory(boost::asio::io_context& io, std::size_t before, std::size_t count) {
  return without_memory(io, before, count, [] {});
}

// Calls `attempt(before)` with 0, 1, 2 and so on until it returns that nothing failed.
template <typename Attempt>
void fail_each_allocation(std::size_t count, Attempt attempt) {
  bool has_failed = true;
  for (std::size_t before = 0; has_failed; ++before) {
    CAPTURE(count, before);
    has_failed = attempt(before);
  }
}

}  // namespace ddprun::tests
