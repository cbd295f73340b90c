// A snapshot archive is the state of a model and its optimizer as bytes, for worker/snapshot to
// keep.
//
// The bytes are LibTorch's own archive format. What else a job needs to go on (epoch, step) is in
// the snapshot's header; random number generators are not in it: seed them from the epoch.
//
// Thread rule: one thread.
// Errors: `snapshot_archive_error` when bytes do not fit the model or the optimizer: a snapshot of
// another program, or of another version of this one.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::worker {

class snapshot_archive_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string to_bytes(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer);

// Loads into the model and the optimizer, which must be made as they were when the bytes were. On
// an error either may have been changed in part.
void from_bytes(std::string_view bytes, torch::nn::Module& model,
                torch::optim::Optimizer& optimizer);

}  // namespace ddprun::worker
