#include "launcher/base/size_text.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::launcher {

TEST_CASE("sizes are said as people say them") {
  constexpr std::uint64_t mib = 1024 * 1024;
  CHECK(size_text(0) == "0 KiB");
  CHECK(size_text(64 * mib) == "64 MiB");
  CHECK(size_text(1536 * mib) == "1.5 GiB");
}

}  // namespace ddprun::launcher
