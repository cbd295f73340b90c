// A rank file is what one rank adds to a snapshot: a safetensors file with the rank's own state
// (generators, its share of a sharded model) and with what the rank writes of the replicated state
// (model, optimizer), which is all of it for rank 0 or a share for each rank (shares.hpp). Names of
// the rank's own state begin with "rank.". The metadata contain "format": "pt", because Hugging
// Face's tools load nothing else. If a rank has pieces of larger tensors, they also contain
// "__pieces__": {"NAME": {"shape": [8, 4], "offset": [2, 0]}}, as text.
//
// The file is written from the tensors' memory in pieces, while another thread computes the
// checksum, and is read by mapping it: it is never in memory as a whole.
//
// Thread rule: one thread; writing starts a second one for the checksum, and ends it.
#pragma once

#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/safetensors.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::worker {

struct rank_file_layout {
  safetensors_header header;
  std::vector<tensor_view> tensors;
  bool has_pieces = false;  // of tensors that are spread over the ranks
};

// Lays out the file of this rank: its share of the replicated state, and its own state. On an error
// `problem` says what is wrong with a name or a length.
result<rank_file_layout> lay_out(snapshot_part replicated, const snapshot_part& own,
                                 std::string& problem);

// Writes and syncs the file, replacing one that is left over. On an error it is removed.
// errc::timed_out if `is_cancelled`, which is called at intervals, returns true.
result<file_record> write_rank_file(file_system& files, const std::string& path,
                                    const rank_file_layout& layout,
                                    const std::function<bool()>& is_cancelled);

struct rank_file {
  std::shared_ptr<const mapped_file> mapping;  // holds the tensors' bytes
  snapshot_part replicated;
  snapshot_part own;
};

// Separates replicated and own state, and restores the original names. errc::damaged if a piece
// does not fit into its whole.
result<rank_file> split_by_owner(safetensors_content content, std::string& problem);

// Maps the file; with `is_checked` also reads and checks every byte. errc::damaged if the file does
// not match the record or is not a safetensors file; other errors mean that it cannot be read now.
// `problem` gives the reason, without the path.
result<rank_file> read_rank_file(file_system& files, const std::string& path,
                                 const file_record& record, bool is_checked, std::string& problem);

}  // namespace ddprun::worker
