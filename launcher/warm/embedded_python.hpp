// The Python files of this folder and of launcher/evidence, which the build embeds into the program
// (.cmake/EmbedPython.cmake), so that none has to be installed beside a worker's Python.
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
