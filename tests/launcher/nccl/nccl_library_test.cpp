#include "launcher/nccl/nccl_library.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("what is no NCCL is named") {
  std::string problem;
  const tests::temporary_folder folder;
  const std::string path = folder.file("libnccl.so.2", "no library", 0600);
  CHECK_FALSE(nccl_library::open(path, problem));
  CHECK(problem.find("NCCL cannot be loaded: ") == 0);
  CHECK(problem.find(path) != std::string::npos);
  CHECK_FALSE(nccl_library::open("libc.so.6", problem));
  CHECK(problem.find("libc.so.6: that is not NCCL: ") == 0);
}
