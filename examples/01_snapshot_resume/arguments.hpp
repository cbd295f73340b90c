// The command line of snapshot_resume.
#pragma once

#include "worker/environment.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace snapshot_resume {

struct arguments {
  std::uint64_t epochs = 50;
  std::uint64_t snapshot_interval = 10;  // epochs between two snapshots
  std::string data;                      // digits.csv
  std::string snapshot_folder = "snapshots";
  std::string metrics;          // a file for them; empty: none
  std::size_t batch_size = 64;  // per rank
  std::uint64_t seed = 0;
  bool tells_samples = false;
  ddprun::worker::place_by_hand place;
};

// Ends the process with one line and status 2 when something is wrong, after --help with 0.
arguments parse_arguments(int count, char** values);

}  // namespace snapshot_resume
