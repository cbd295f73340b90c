// A folder that goes with its test.
#pragma once

#include "tests/support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ddprun::test {

struct temporary_folder {
  temporary_folder() {
    std::string name = std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_folder() { std::filesystem::remove_all(path); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  std::string path;
};

}  // namespace ddprun::test
