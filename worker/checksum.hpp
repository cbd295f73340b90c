// CRC-32C (Castagnoli), as iSCSI, ext4 and leveldb use it: tells a damaged snapshot from a whole
// one. It finds accidents, not attackers.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun::worker {

// The checksum of `bytes`; to go on with more bytes, hand the checksum so far in as `before`.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

}  // namespace ddprun::worker
