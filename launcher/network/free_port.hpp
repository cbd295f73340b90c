// Picks ports for others to open: a worker's own store, the {free_port} placeholder.
//
// Another program may take such a port before it is opened. So ddprun binds ports itself where it
// can, and picks only if another program opens them.
//
// Thread rule: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddprun::launcher {

// The range of ports for outgoing connections, both ends included.
struct port_range {
  std::uint32_t low = 32'768;
  std::uint32_t high = 60'999;
};
port_range kernel_port_range();

// A port that nobody listens on, outside the kernel's range, so that no outgoing connection can
// take it. If there is none outside (the range may be 1024 to 65535), one that the kernel picks.
// `seed` says where the search starts. 0: there is none.
std::uint16_t unused_static_port(std::uint64_t seed, port_range kernels = kernel_port_range());

// `count` different unused ports that the kernel picks. 0: none was left.
std::vector<std::uint16_t> unused_kernel_ports(std::size_t count);

}  // namespace ddprun::launcher
