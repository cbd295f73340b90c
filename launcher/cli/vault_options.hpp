// What --vault and its like ask for.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::launcher {

struct vault_options {
  std::string disk;                 // where copies are kept; empty: there is no vault
  std::string memory = "/dev/shm";  // the file system in memory
  std::uint64_t size = 0;           // bytes of memory, at most; 0: half of what there is
  std::uint64_t rate = 200 << 20;   // bytes a second that are copied while workers run; 0: no limit
  std::uint16_t port = 0;           // where other nodes' copies are taken in; 0: one that is free
};

}  // namespace ddprun::launcher
