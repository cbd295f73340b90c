// The residual networks of this example, with the shapes of He et al. (2015).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace resnet_synthetic {

struct architecture {
  std::string name;
  bool is_bottleneck;                  // blocks of three convolutions instead of two
  std::array<std::int64_t, 4> blocks;  // in each of the four layers
};

inline const std::vector<architecture> architectures = {{"resnet18", false, {2, 2, 2, 2}},
                                                        {"resnet50", true, {3, 4, 6, 3}},
                                                        {"resnet101", true, {3, 4, 23, 3}}};

}  // namespace resnet_synthetic
