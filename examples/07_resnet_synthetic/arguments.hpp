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
  std::uint64_t batch_size = 16;  // for each rank
  std::uint64_t images = 512;     // in an epoch, on all ranks
  std::uint64_t test_images = 128;
  std::uint64_t image_size = 32;
  std::uint64_t classes = 10;
  double learning_rate = 0.05;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  std::uint64_t print_interval = 10;  // steps
  std::uint64_t seed = 0;
  std::uint64_t workers = 2;  // threads that load images
  std::string resume;         // a folder of snapshots; empty: save none
  ddprun::worker::place_by_hand place;
};

// Exits with one line and status 2 if an argument is wrong, and with 0 after --help.
arguments parse_arguments(int count, char** values);

}  // namespace resnet_synthetic
