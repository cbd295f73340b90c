// A folder that is removed at the end of its test.
#pragma once

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>

namespace ddprun::tests {

// Empty if the file does not exist.
inline std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct temporary_folder {
  temporary_folder() {
    std::string name = std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_folder() { std::filesystem::remove_all(path); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  // Creates a file with exactly this mode, whatever the umask is, and returns its path.
  std::string file(const std::string& name, const std::string& content, int mode) const {
    const std::string whole = path + "/" + name;
    std::ofstream(whole) << content;
    ::chmod(whole.c_str(), static_cast<mode_t>(mode));
    return whole;
  }

  std::string path;
};

}  // namespace ddprun::tests
