// Sharded tensors are those of which each rank has a piece, such as an optimizer's state that is
// spread over the ranks, or a model's layers of which each rank has a part. In a snapshot each
// piece records its region of the whole, as in PyTorch's distributed checkpoints
// (torch/distributed/checkpoint/metadata.py: ChunkStorageMetadata has offsets and sizes,
// TensorStorageMetadata the size of the whole), so that another number of ranks can read the
// regions that they need.
//
// The files of other ranks are opened when a region is asked for: a rank that opened all of them
// would wait for thousands, and all ranks would ask the file server for each.
//
// Thread rule: any thread, after all pieces were added.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"
#include "worker/snapshot/tensor_region.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class sharded_tensors {
 public:
  // What a rank has saved of its own.
  struct opened_file {
    snapshot_part own;
    std::shared_ptr<const mapped_file> bytes;
  };
  // Opens the file of a rank; `problem` names it.
  using opener = std::function<result<opened_file>(std::uint32_t rank, std::string& problem)>;

  sharded_tensors() = default;
  // Of so many ranks' files, which are opened in order, from that of `first` on and round again,
  // for as long as a region is not there as a whole.
  sharded_tensors(std::uint32_t ranks, std::uint32_t first, opener open);

  // The pieces of one rank's file; what is none is left out. errc::damaged: a piece that does not
  // fit into its whole, or one of another whole than those before.
  error_code add(std::uint32_t rank, const snapshot_part& own,
                 std::shared_ptr<const mapped_file> bytes, std::string& problem);

  // Opens all that is not open yet. Errors: the opener's, or as add().
  error_code open_all(std::string& problem) const;

  // Brings a region of a whole to `to`, from the pieces that have some of it: only their bytes are
  // read. errc::not_found: there is no such tensor; errc::invalid_argument: it has no such region;
  // errc::damaged: the pieces leave some of it out, or two of them, in files that are open, have
  // some of it both. As open_all(): a file cannot be opened, and those that can leave some of it
  // out.
  error_code read(std::string_view name, const tensor_region& region, char* to,
                  std::string& problem) const;

 private:
  struct piece {
    tensor_region region;
    std::string_view bytes;
  };
  struct sharded {
    tensor_description whole;
    std::vector<piece> pieces;
  };
  error_code take(std::uint32_t rank, const snapshot_part& own,
                  std::shared_ptr<const mapped_file> bytes, std::string& problem) const;
  // The next one that is not open, in its turn. False: none is left.
  result<bool> open_next(std::uint32_t& turn, std::string& problem) const;

  std::uint32_t ranks_ = 0;
  std::uint32_t first_ = 0;
  opener open_;
  mutable std::mutex mutex_;
  mutable std::set<std::uint32_t> is_open_;
  mutable std::map<std::string, sharded, std::less<>> tensors_;
  mutable std::vector<std::shared_ptr<const mapped_file>> bytes_;
};

}  // namespace ddprun::worker
