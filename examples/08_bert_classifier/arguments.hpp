#pragma once

#include "examples/08_bert_classifier/sizes.hpp"
#include "worker/environment.hpp"

#include <cstdint>
#include <string>

namespace bert_classifier {

struct arguments {
  encoder_size size = sizes.front();
  std::string data = "/usr/share/common-licenses";
  std::uint64_t epochs = 5;
  std::uint64_t batch_size = 16;
  std::uint64_t accumulate = 1;
  std::uint64_t length = 32;
  std::uint64_t vocabulary = 2000;
  double learning_rate = 1e-3;
  double weight_decay = 0.01;
  double dropout = 0.1;
  double clip = 1;
  std::uint64_t seed = 0;
  bool sends_bf16 = false;
  ddprun::worker::place_by_hand place;
};

// Exits if the arguments are wrong, and after --help.
arguments parse_arguments(int count, char** values);

}  // namespace bert_classifier
