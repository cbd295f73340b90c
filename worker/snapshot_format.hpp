// The bytes of a snapshot file: a header of 72 bytes, then the payload, nothing after it.
//
//   offset  bytes  little-endian
//        0      8  "DDPRSNAP"
//        8      4  version of this format: 1
//       12      4  0
//       16      8  tenure    who wrote it: see snapshot.hpp
//       24      8  instance  of the run; 0 when the launcher has none
//       32      8  round
//       40      8  step      the writer's own count of progress
//       48      8  epoch
//       56      8  length of the payload
//       64      4  CRC-32C of the payload
//       68      4  CRC-32C of the 68 bytes before
//
// A later version keeps the first 12 bytes and the checksum at 68: so a newer format is told from a
// damaged file, which may be skipped.
//
// Pure: bytes in, values out. A file's name repeats tenure and step, so that a folder can be sorted
// without opening the files: snapshot-<tenure>-<step>.ddprun, both in at least six digits.
//
// Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/messages/types.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

struct snapshot_info {
  std::uint64_t tenure = 0;
  instance_id instance = 0;
  round_number round = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  bool operator==(const snapshot_info&) const = default;
};

constexpr std::size_t snapshot_header_bytes = 72;

std::string encode_snapshot_header(const snapshot_info& info, std::string_view payload);

// The header of a whole file, its payload checked: errc::damaged when anything is cut short, left
// over, or does not fit its checksum; errc::version_mismatch for a format of a later version.
result<snapshot_info> check_snapshot(std::string_view file);

// The same by its header and its length alone: the payload is not looked at.
result<snapshot_info> check_snapshot_head(std::string_view head, std::uint64_t file_bytes);

// Tenures go up by one from 1: a name with a greater one is nobody's of us.
constexpr std::uint64_t tenure_limit = std::uint64_t{1} << 62;

// What the name says: `newer` is greater.
struct snapshot_order {
  std::uint64_t tenure = 0;
  std::uint64_t step = 0;
  auto operator<=>(const snapshot_order&) const = default;
};
std::string snapshot_name(snapshot_order order);
std::optional<snapshot_order> parse_snapshot_name(std::string_view name);

// A claim says who writes in the folder: claim-<tenure>, with the text "instance round\n".
std::string claim_name(std::uint64_t tenure);
std::optional<std::uint64_t> parse_claim_name(std::string_view name);

}  // namespace ddprun::worker
