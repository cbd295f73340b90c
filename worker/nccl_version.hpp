// NCCL's version, as NCCL_VERSION_CODE encodes it and as people write it.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::worker {

// Converts 23007 to "2.30.7". The code has one digit for the minor version up to 2.8 (2804), and
// two since then.
inline std::string nccl_version_text(std::uint32_t code) {
  const std::uint32_t unit = code < 10000 ? 1000 : 10000;
  return std::to_string(code / unit) + "." + std::to_string(code % unit / 100) + "." +
         std::to_string(code % 100);
}

}  // namespace ddprun::worker
