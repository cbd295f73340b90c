// The command line of snapshot_resume.
#pragma once

#include "worker/environment.hpp"
#include "worker/training/loop_options.hpp"

#include <string>

namespace snapshot_resume {

struct arguments {
  ddprun::worker::training_loop_options loop;
  std::string data;  // digits.csv
  bool tells_samples = false;
  ddprun::worker::place_by_hand place;
};

// Exits with one line and status 2 if an argument is wrong, and with 0 after --help.
arguments parse_arguments(int count, char** values);

}  // namespace snapshot_resume
