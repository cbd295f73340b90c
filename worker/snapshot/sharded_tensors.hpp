// Sharded tensors are those of which each rank has a piece: an optimizer's state that is spread
// over the ranks, the layers of a model of which each has a part. In a snapshot each piece says
// which region of the whole it is, as in PyTorch's distributed checkpoints
// (torch/distributed/checkpoint/ metadata.py: ChunkStorageMetadata has offsets and sizes,
// TensorStorageMetadata the size of the whole), so that another number of ranks can read the
// regions that are theirs now.
//
// Thread rule: any thread once all pieces are added.
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
  // The pieces of one rank; what is none is left out. errc::damaged: a piece that does not fit into
  // its whole, or one of another whole than those before.
  error_code add(const snapshot_part& own, std::shared_ptr<const mapped_file> bytes,
                 std::string& problem);

  // The wholes, by name.
  std::vector<tensor_description> wholes() const;
  // None: there is no tensor of that name.
  const tensor_description* find(std::string_view name) const;

  // Brings a region of a whole to `to`, from all pieces that have some of it: only their bytes are
  // read. errc::not_found: there is no such tensor; errc::invalid_argument: it has no such region;
  // errc::damaged: the pieces leave some of it out, or two of them have some of it both.
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
