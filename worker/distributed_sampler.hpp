// A distributed sampler deals the indices of a data set out to the ranks: every rank gets the same
// number, and together they get each index once (or, to come out even, a few twice or not at all).
//
// It follows PyTorch's torch.utils.data.DistributedSampler: rank r takes indices r, r + world,
// r + 2 world... of the (shuffled) order; without `drop_last` the order is padded from its own
// beginning until it divides, with it the rest is cut off. What differs is the shuffle: PyTorch
// shuffles with its own Mersenne twister, this one with SplitMix64 and Fisher-Yates, so the order
// for a seed is not PyTorch's, but is the same on every machine and compiler.
//
// As there, without `set_epoch` a shuffled order is the same in every epoch.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::worker {

struct distributed_sampler_options {
  std::size_t length = 0;        // of the data set; 0 gives every rank nothing
  std::uint32_t world_size = 1;  // at least 1
  std::uint32_t rank = 0;        // below world_size
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t seed = 0;  // must be the same on all ranks
};

class distributed_sampler {
 public:
  explicit distributed_sampler(const distributed_sampler_options& options);

  // Gives the next order its own shuffle. Call it on every rank before each epoch.
  void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

  // This rank's indices of the current epoch, in the order in which to use them.
  std::vector<std::size_t> indices() const;

  // How many indices each rank gets: the same on every rank, in every epoch.
  std::size_t size() const { return size_; }

 private:
  distributed_sampler_options options_;
  std::uint64_t epoch_ = 0;
  std::size_t size_ = 0;
};

// Cuts indices into batches of `batch_size` (at least 1). The last one may be shorter; with
// `drop_last` a shorter one is left out. The spans point into `indices`, which must outlive them.
std::vector<std::span<const std::size_t>> batches(std::span<const std::size_t> indices,
                                                  std::size_t batch_size, bool drop_last = false);

}  // namespace ddprun::worker
