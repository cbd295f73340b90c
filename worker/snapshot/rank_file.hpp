// A rank file is what one rank adds to a snapshot: a safetensors file with the state that is the
// rank's own (generators, its share of a sharded model), and with what it writes of the state that
// all ranks have alike (model, optimizer): rank 0 all of it, or each rank a share (shares.hpp). The
// names of what is the rank's own begin with "rank.". "format": "pt" stands among the texts, for
// Hugging Face's tools load nothing else. Where some of what is its own are pieces of larger
// tensors,
// "__pieces__" is there too: {"NAME": {"shape": [8, 4], "offset": [2, 0]}}, as text.
//
// It is written from where the tensors lie, in pieces, with the checksum made beside the writing,
// and read by mapping it: the whole of it is never in memory.
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
  bool has_pieces = false;  // of tensors that ranks have together
};

// Of what this rank writes: its share of what all have alike, and its own. `problem` says what is
// wrong with a name or a length.
result<rank_file_layout> lay_out(snapshot_part replicated, const snapshot_part& own,
                                 std::string& problem);

// Makes the file in the place of one that is left over, and syncs it. On errors it is removed.
// errc::timed_out: `is_cancelled`, which is asked every now and then, has said so.
result<file_record> write_rank_file(file_system& files, const std::string& path,
                                    const rank_file_layout& layout,
                                    const std::function<bool()>& is_cancelled);

struct rank_file {
  std::shared_ptr<const mapped_file> mapping;  // the tensors' bytes
  snapshot_part replicated;
  snapshot_part own;
};

// What all ranks have alike, and what is the rank's own, under the names that they had.
// errc::damaged: a piece is none of its whole.
result<rank_file> split_by_owner(safetensors_content content, std::string& problem);

// Maps it, and looks at each byte where it is to be checked. errc::damaged: it is not the one of
// the record, or no safetensors file; other errors: it cannot be read now. `problem` says why,
// without the path.
result<rank_file> read_rank_file(file_system& files, const std::string& path,
                                 const file_record& record, bool is_checked, std::string& problem);

}  // namespace ddprun::worker
