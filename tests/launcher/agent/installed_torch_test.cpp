#include "launcher/agent/installed_torch.hpp"

#include "tests/support/catch.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun::tests {
namespace {

// What `installed_torch` says where Python is this shell script.
std::string with_python(const std::string& script) {
  std::string folder = (std::filesystem::temp_directory_path() / "torch-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string python = folder + "/python";
  std::ofstream(python) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string version = installed_torch({{"PYTHON_EXEC", python}, {"TOLD", "9.8.7"}});
  std::filesystem::remove_all(folder);
  return version;
}

}  // namespace

TEST_CASE("Python says which PyTorch it has") {
  CHECK(with_python("echo 2.15.0+cu132") == "2.15.0+cu132");
  CHECK(with_python("echo $TOLD") == "9.8.7");
  CHECK(with_python("[ \"$1\" = -c ] && echo 1.0.0; echo more") == "1.0.0");
  // What it starts and leaves behind is not waited for longer than its answer.
  CHECK(with_python("cat; exec yes") == "y");
}

TEST_CASE("where Python does not say there is no PyTorch") {
  CHECK(with_python("echo no module >&2; exit 1").empty());
  CHECK(with_python("exec >&-; exec sleep 1000").empty());
  CHECK(installed_torch({{"PYTHON_EXEC", "/nowhere/python"}}).empty());
}

}  // namespace ddprun::tests
