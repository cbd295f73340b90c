#include "launcher/node/installed_packages.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cstdio>
#include <string>

namespace ddprun::launcher {
namespace {

// The result of `installed_torch` if Python is this shell script.
std::string with_python(const std::string& script) {
  const tests::temporary_folder folder;
  const std::string python = folder.file("python", "#!/bin/sh\n" + script + "\n", 0700);
  return installed_torch({{"PYTHON_EXEC", python}, {"TOLD", "9.8.7"}});
}

}  // namespace

TEST_CASE("Python says which PyTorch it has") {
  CHECK(with_python("echo 2.15.0+cu132") == "2.15.0+cu132");
  CHECK(with_python("echo $TOLD") == "9.8.7");
  CHECK(with_python("[ \"$1\" = -c ] && echo 1.0.0; echo more") == "1.0.0");
  // A process that the script leaves behind is not waited for.
  CHECK(with_python("cat; exec yes") == "y");
}

TEST_CASE("where Python does not say there is no PyTorch") {
  CHECK(with_python("echo no module >&2; exit 1").empty());
  CHECK(with_python("exec >&-; exec sleep 1000").empty());
  CHECK(installed_torch({{"PYTHON_EXEC", "/nowhere/python"}}).empty());
}

}  // namespace ddprun::launcher
