// The Python files of this folder and of launcher/evidence, which the build puts into the program
// (.cmake/EmbedPython.cmake): nothing of them has to be installed where a worker's Python runs.
#pragma once

#include <span>
#include <string_view>

namespace ddprun::launcher::warm {

struct embedded_file {
  std::string_view name;  // without ".py"
  std::string_view text;
};

extern const std::span<const embedded_file> embedded_python;

}  // namespace ddprun::launcher::warm
