// A manifest describes a snapshot. It is written last, and makes the snapshot valid. It is JSON, so
// that scripts can read it:
//
//   {
//     "format": "ddprun snapshot", "version": 3,
//     "generation": 3, "step": 40, "epoch": 4, "instance": 77, "round": 2, "progress": true,
//     "files": [{"bytes": 131200, "xxh3": "0123456789abcdef"}, ...],
//     "xxh3": "fedcba9876543210"
//   }
//
// "generation" is the one of claim.hpp, and "files" lists those of ranks 0, 1, 2... Optional
// members:
//
//   "progress": true       the program has reported its progress before the save
//   "emergency": true      an emergency snapshot (emergency.hpp)
//   "replicated": [0, 4]   the ranks whose files contain the replicated state, each a share of it
//                          (shares.hpp); otherwise it is in rank 0's file
//   "pieces": true         ranks have pieces of larger tensors (sharded_tensors.hpp)
//
// The last member is the checksum of all bytes before its line; only this program checks it.
//
// Versions 1 and 2 are read, and not written any more: there "tenure" stands for "generation", and
// 2 has "replicated". A program that does not know version 3 says so, and does not take the
// snapshot for a damaged one.
//
// Pure: bytes in, values out. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/names.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

struct file_record {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
  bool operator==(const file_record&) const = default;
};

struct manifest {
  snapshot_info info;
  std::vector<file_record> files;            // one for each rank
  std::vector<std::uint32_t> replicated{0};  // ranks, in ascending order
  bool has_pieces = false;                   // of tensors that are spread over the ranks
  snapshot_order order() const { return {info.generation, info.step}; }
  bool operator==(const manifest&) const = default;
};

// The name of a rank's file in the snapshot's folder.
std::string file_name_in(const snapshot_info& info, std::uint32_t rank);

// A manifest of ten thousand ranks takes half a megabyte.
constexpr std::size_t manifest_bytes_max = std::size_t{64} << 20;

std::string to_text(const manifest& content);

// errc::damaged if anything is cut off, left over, or does not match the checksum;
// errc::version_mismatch if it is intact but of a later version.
result<manifest> parse_manifest(std::string_view text);

}  // namespace ddprun::worker
