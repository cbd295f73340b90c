// A folder with the files in which the kernel describes a node.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::tests {

class node_of_files {
 public:
  std::filesystem::path root() const { return folder_.path; }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

 private:
  temporary_folder folder_;
};

}  // namespace ddprun::tests
