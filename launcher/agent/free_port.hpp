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

namespace ddprun {

// A port that nobody listens on now, outside the range from which the kernel gives ports to
// outgoing connections, so that none of those can take it meanwhile. `seed` says where the search
// begins. 0: there is none.
std::uint16_t unused_static_port(std::uint64_t seed);

// `count` different ports that the kernel picked and nobody holds. 0: there was none left.
std::vector<std::uint16_t> unused_kernel_ports(std::size_t count);

}  // namespace ddprun
