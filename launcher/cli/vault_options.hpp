// The values of --vault and related options.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::launcher {

struct vault_options {
  std::string disk;                 // folder for copies; empty: no vault
  std::string memory = "/dev/shm";  // a file system in memory
  std::uint64_t size = 0;           // at most so many bytes of memory; 0: half of what there is
  std::uint64_t rate = 200 << 20;   // bytes per second copied while workers run; 0: no limit
  std::uint16_t port = 0;           // for other nodes' copies; 0: a free one
};

}  // namespace ddprun::launcher
