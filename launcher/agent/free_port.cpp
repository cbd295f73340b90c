#include "launcher/agent/free_port.hpp"

#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun {
namespace {

constexpr std::uint32_t first_port = 10'000;  // below live the well-known services
constexpr std::uint32_t last_port = 65'535;

// Binds and lets go again; the port, or 0.
std::uint16_t try_port(std::uint16_t port) {
  const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t length = sizeof address;
  std::uint16_t bound = 0;
  if (::bind(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(handle, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    bound = ntohs(address.sin_port);
  }
  ::close(handle);
  return bound;
}

}  // namespace

std::uint16_t unused_static_port(std::uint64_t seed) {
  std::uint32_t low = 32'768;
  std::uint32_t high = 60'999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  const std::uint32_t count = last_port - first_port + 1;
  // A stride that shares no factor with the count visits every port once.
  constexpr std::uint32_t stride = 7919;
  for (std::uint32_t step = 0; step < count; ++step) {
    const auto offset = static_cast<std::uint32_t>((seed + std::uint64_t{step} * stride) % count);
    const std::uint32_t port = first_port + offset;
    if (port >= low && port <= high) continue;
    if (try_port(static_cast<std::uint16_t>(port)) != 0) return static_cast<std::uint16_t>(port);
  }
  return 0;
}

std::uint16_t unused_kernel_port() {
  return try_port(0);
}

}  // namespace ddprun
