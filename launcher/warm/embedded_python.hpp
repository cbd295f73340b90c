// The Python files of this folder, which the build puts into the program
// (.cmake/EmbedPython.cmake): nothing of them has to be installed where a worker's Python runs.
//
// Thread rule: constants.
#pragma once

#include <array>
#include <string_view>

namespace ddprun::launcher::warm {

struct embedded_file {
  std::string_view name;  // without ".py"
  std::string_view text;
};

extern const std::array<embedded_file, 5> embedded_python;

}  // namespace ddprun::launcher::warm
