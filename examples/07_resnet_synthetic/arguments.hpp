// The command line of resnet_synthetic.
#pragma once

#include "examples/07_resnet_synthetic/architectures.hpp"
#include "worker/environment.hpp"

#include <cstdint>
#include <string>

namespace resnet_synthetic {

struct arguments {
  architecture built = architectures.front();
  std::uint64_t epochs = 3;
  std::uint64_t batch_size = 16;  // of each rank
  std::uint64_t images = 512;     // of an epoch, on all ranks
  std::uint64_t test_images = 128;
  std::uint64_t image_size = 32;
  std::uint64_t classes = 10;
  double learning_rate = 0.05;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  std::uint64_t print_interval = 10;  // steps
  std::uint64_t seed = 0;
  std::uint64_t workers = 2;  // threads that load images
  std::string resume;         // a folder of snapshots; empty: none are kept
  ddprun::worker::place_by_hand place;
};

// Ends the process with one line and status 2 when something is wrong, after --help with 0.
arguments parse_arguments(int count, char** values);

}  // namespace resnet_synthetic
