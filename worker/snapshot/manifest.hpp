// A manifest says what a snapshot consists of: it is written last, and with it the snapshot is
// there. It is JSON, so that a script can read it:
//
//   {
//     "format": "ddprun snapshot", "version": 1,
//     "tenure": 3, "step": 40, "epoch": 4, "instance": 77, "round": 2, "progress": true,
//     "files": [{"bytes": 131200, "xxh3": "0123456789abcdef"}, ...],
//     "xxh3": "fedcba9876543210"
//   }
//
// "emergency": true stands there where that is what it is (emergency.hpp).
// "replicated": [0, 4] are the ranks whose files have what all ranks have alike, each a share of
// it (shares.hpp), and the version is 2 then; else it is in the first file alone. "pieces": true
// stands there where ranks have pieces of larger tensors (sharded_tensors.hpp).
// "progress" is there where the program has said how far it has come before it saved. The files are
// those of ranks 0, 1, 2... The last member is the checksum of all bytes before its
// line; only this program needs to look at it.
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
  std::vector<file_record> files;            // one a rank
  std::vector<std::uint32_t> replicated{0};  // ranks, from 0 upwards
  bool has_pieces = false;                   // of tensors that ranks have together
  snapshot_order order() const { return {info.generation, info.step}; }
  bool operator==(const manifest&) const = default;
};

// The name of a rank's file in its folder.
std::string file_name_in(const snapshot_info& info, std::uint32_t rank);

// Ten thousand ranks take half a megabyte.
constexpr std::size_t manifest_bytes_max = std::size_t{64} << 20;

std::string to_text(const manifest& content);

// errc::damaged when anything is cut short, left over, or does not fit its checksum;
// errc::version_mismatch for a whole one of a later version.
result<manifest> parse_manifest(std::string_view text);

}  // namespace ddprun::worker
