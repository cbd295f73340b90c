// The sizes of BERT that Google published: those of the paper, and smaller ones for research.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_classifier {

struct encoder_size {
  std::string name;
  std::int64_t layers;
  std::int64_t width;  // of a token's vector: 64 for each head, 1/4 of the inner layer
};

inline const std::vector<encoder_size> sizes = {
    {"tiny", 2, 128}, {"mini", 4, 256}, {"small", 4, 512}, {"medium", 8, 512}, {"base", 12, 768}};

}  // namespace bert_classifier
