#include "launcher/network/free_port.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <fstream>
#include <netinet/in.h>
#include <sys/socket.h>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::uint32_t first_port = 10'000;  // well-known services are below
constexpr std::uint32_t last_port = 65'535;

struct held_port {
  unique_fd socket;
  std::uint16_t number = 0;
};

// Binds the port, which nobody else can get until the socket is closed.
held_port hold_port(std::uint16_t port) {
  held_port held;
  held.socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int handle = held.socket.get();
  if (handle < 0) return held;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t length = sizeof address;
  if (::bind(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(handle, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    held.number = ntohs(address.sin_port);
  }
  return held;
}

}  // namespace

port_range kernel_port_range() {
  port_range range;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> range.low >> range.high;
  return range;
}

std::uint16_t unused_static_port(std::uint64_t seed, port_range kernels) {
  const std::uint32_t count = last_port - first_port + 1;
  // A stride that is coprime to the count visits every port once.
  constexpr std::uint32_t stride = 7919;
  for (std::uint32_t step = 0; step < count; ++step) {
    const auto offset = static_cast<std::uint32_t>((seed + std::uint64_t{step} * stride) % count);
    const std::uint32_t port = first_port + offset;
    if (port >= kernels.low && port <= kernels.high) continue;
    if (hold_port(static_cast<std::uint16_t>(port)).number != 0)
      return static_cast<std::uint16_t>(port);
  }
  return hold_port(0).number;
}

std::vector<std::uint16_t> unused_kernel_ports(std::size_t count) {
  // All are held until the last is found, because the kernel may pick a released one again.
  std::vector<held_port> held;
  std::vector<std::uint16_t> numbers;
  for (std::size_t index = 0; index < count; ++index) {
    held.push_back(hold_port(0));
    numbers.push_back(held.back().number);
  }
  return numbers;
}

}  // namespace ddprun::launcher
