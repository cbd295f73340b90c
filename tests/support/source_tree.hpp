// The sources that this program was built from, for tests that compare a page with the code. The
// path is not compiled in, because the compiler cache serves several clones.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::tests {

// Taken from CMake's cache in the build folder, whose bin/ contains this program.
inline std::filesystem::path source_tree() {
  const auto build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  std::ifstream cache(build / "CMakeCache.txt");
  constexpr std::string_view key = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  for (std::string line; std::getline(cache, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  throw std::runtime_error("no source folder is named in " + (build / "CMakeCache.txt").string());
}

}  // namespace ddprun::tests
