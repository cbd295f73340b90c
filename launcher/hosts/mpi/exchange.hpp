// An exchange is the board of an MPI launcher on which its processes read what the others have
// written: PMI-1 or PMIx.
//
// Each call blocks until the launcher has answered, or until the deadline
// that the exchange was made with.
// Errors: what is wrong, without saying whose launcher it is; the exchange is of no use then, but
// `finish` may still be called.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace ddprun::launcher::hosts::mpi {

using deadline = std::chrono::steady_clock::time_point;

// A text that is no error: cli::parsed<std::string> takes neither by itself.
inline cli::parsed<std::string> good(std::string text) {
  return {boost::system::in_place_value, std::move(text)};
}

class exchange {
 public:
  exchange() = default;
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  virtual ~exchange() = default;

  // `key` is this rank's alone. `value` has no blanks, no line ends and no "="; others see it after
  // the next fence. At most `value_bytes_max` long.
  virtual cli::checked put(const std::string& key, const std::string& value) = 0;
  // Every rank has to come here.
  virtual cli::checked fence() = 0;
  // What that rank has put.
  virtual cli::parsed<std::string> get(std::uint32_t rank, const std::string& key) = 0;
  // Takes leave: a launcher takes the end of a process that has not done so for a crash.
  virtual cli::checked finish() = 0;

  // Less than any launcher's limit (1,024 in MPICH's hydra).
  static constexpr std::size_t value_bytes_max = 1000;
};

}  // namespace ddprun::launcher::hosts::mpi
