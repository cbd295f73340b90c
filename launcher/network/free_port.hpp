// Picks ports for others to open: a worker's own store, the {free_port} placeholder.
//
// Such a port can be taken by somebody else before it is opened; ddprun binds by itself wherever it
// can, and picks only where the opener is another program.
//
// Thread rule: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::launcher {

// From which the kernel gives ports to outgoing connections, both ends included.
struct port_range {
  std::uint32_t low = 32'768;
  std::uint32_t high = 60'999;
};
port_range kernel_port_range();

// A port that nobody listens on now, outside the kernel's range, so that no outgoing connection can
// take it meanwhile; where nothing outside is left (the range may be 1024 to 65535) one that the
// kernel picks. `seed` says where the search begins. 0: there is none.
std::uint16_t unused_static_port(std::uint64_t seed, port_range kernels = kernel_port_range());

// `count` different ports that the kernel picked and nobody holds. 0: there was none left.
std::vector<std::uint16_t> unused_kernel_ports(std::size_t count);

}  // namespace ddprun::launcher
