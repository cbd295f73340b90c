// Sharded tensors are those of which each rank has a piece, such as an optimizer's state that is
// spread over the ranks, or a model's layers of which each rank has a part. In a snapshot each
// piece records its region of the whole, as in PyTorch's distributed checkpoints
// (torch/distributed/checkpoint/metadata.py: ChunkStorageMetadata has offsets and sizes,
// TensorStorageMetadata the size of the whole), so that another number of ranks can read the
// regions that they need.
//
// Thread rule: any thread, after all pieces were added.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/snapshot_state.hpp"
#include "worker/snapshot/tensor_region.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class sharded_tensors {
 public:
  // Adds the pieces of one rank; other tensors are ignored. errc::damaged if a piece does not fit
  // into its whole, or belongs to another whole than the earlier ones.
  error_code add(const snapshot_part& own, std::shared_ptr<const mapped_file> bytes,
                 std::string& problem);

  // The whole tensors, by name.
  std::vector<tensor_description> wholes() const;
  // nullptr if there is no tensor of that name.
  const tensor_description* find(std::string_view name) const;

  // Copies a region of a whole tensor to `to`, from all pieces that overlap it; only their bytes
  // are read. errc::not_found if the tensor does not exist; errc::invalid_argument if it has no
  // such region; errc::damaged if the pieces do not cover the region, or overlap in it.
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
  std::map<std::string, sharded, std::less<>> tensors_;
  std::vector<std::shared_ptr<const mapped_file>> bytes_;
};

}  // namespace ddprun::worker
