// Runs a step, and all of the loop that is ready then, while allocations fail.
#pragma once

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

}  // namespace ddprun::tests
