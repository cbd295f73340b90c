// An exchange is the key-value space of an MPI launcher, in which its processes read what others
// have written: PMI-1 or PMIx.
//
// Each call blocks until the launcher has answered, or until the deadline given at creation. Errors
// say what is wrong, without the launcher's name; then the exchange is unusable, but `finish` may
// still be called.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace ddprun::launcher::hosts::mpi {

using deadline = std::chrono::steady_clock::time_point;

// Makes a successful result: cli::parsed<std::string> cannot tell text from an error by itself.
inline cli::parsed<std::string> good(std::string text) {
  return {boost::system::in_place_value, std::move(text)};
}

class exchange {
 public:
  exchange() = default;
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  virtual ~exchange() = default;

  // `key` is used by this rank only. `value` has no blanks, line ends or "="; others see it after
  // the next fence. At most `value_bytes_max` long.
  virtual cli::checked put(const std::string& key, const std::string& value) = 0;
  // Every rank must call this.
  virtual cli::checked fence() = 0;
  // Returns what that rank has put.
  virtual cli::parsed<std::string> get(std::uint32_t rank, const std::string& key) = 0;
  // Leaves in order: launchers take the end of a process that has not done so for a crash.
  virtual cli::checked finish() = 0;

  // Below every launcher's limit (1,024 in MPICH's hydra).
  static constexpr std::size_t value_bytes_max = 1000;
};

}  // namespace ddprun::launcher::hosts::mpi
