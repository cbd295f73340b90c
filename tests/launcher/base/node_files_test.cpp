#include "launcher/base/node_files.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher {

// As a file of /proc whose process has ended since it was opened.
TEST_CASE("a file that can be opened and not read has no text") {
  CHECK(whole_text("/proc/self/fd").empty());
  CHECK_FALSE(first_line("/proc/self/fd"));
}

}  // namespace ddprun::launcher
