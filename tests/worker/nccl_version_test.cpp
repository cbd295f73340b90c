#include "worker/nccl_version.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::worker;

TEST_CASE("the version of NCCL is written as people write it") {
  CHECK(nccl_version_text(23007) == "2.30.7");
  CHECK(nccl_version_text(21903) == "2.19.3");
  CHECK(nccl_version_text(2804) == "2.8.4");
}
