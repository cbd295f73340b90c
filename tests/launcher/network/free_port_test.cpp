// Ports that are chosen for other programs to open.
#include "launcher/network/free_port.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <set>

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("a port for a worker's own store lies outside the kernel's range where there is one") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint16_t port = unused_static_port(seed, {20'000, 65'535});
    CHECK(port >= 10'000);
    CHECK(port < 20'000);
  }
  CHECK(unused_static_port(7, {10'001, 65'535}) == 10'000);
}

TEST_CASE("where the kernel's range is all there is, a port is found all the same") {
  CHECK(unused_static_port(7, {1'024, 65'535}) != 0);
}

TEST_CASE("the kernel's range is read from the system") {
  const port_range range = kernel_port_range();
  CHECK(range.low > 0);
  CHECK(range.low <= range.high);
  CHECK(range.high <= 65'535);
}

TEST_CASE("ports that the kernel picks are different ones") {
  const auto ports = unused_kernel_ports(50);
  CHECK(std::set(ports.begin(), ports.end()).size() == 50);
  CHECK(std::find(ports.begin(), ports.end(), 0) == ports.end());
}
