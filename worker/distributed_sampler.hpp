// A distributed sampler splits the indices of a data set among the ranks. Every rank gets the same
// number, and together they get each index once, except that a few are repeated or dropped to make
// the shares equal.
//
// It yields the same indices as PyTorch's torch.utils.data.DistributedSampler: rank r takes indices
// r, r + world, r + 2 world... of the (shuffled) order. Without `drop_last` the order is padded
// from its own beginning until its length divides evenly; with it the rest is cut off. The shuffle
// is torch.randperm with a generator seeded with `seed + epoch`. That generator is mt19937, which
// the C++ library has too, so LibTorch is not needed.
//
// As in PyTorch, a shuffled order is the same in every epoch unless `set_epoch` is called.
//
// Thread rule: one thread at a time.
//
// Errors: std::invalid_argument, with one line, for what is outside its range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::worker {

struct distributed_sampler_options {
  std::size_t length = 0;        // samples in the data set; with 0 every rank gets none
  std::uint32_t world_size = 1;  // at least 1
  std::uint32_t rank = 0;        // below world_size
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t seed = 0;  // must be the same on all ranks
};

// The progress within an epoch, for a snapshot. It is equal on all ranks.
struct distributed_sampler_state {
  std::uint64_t epoch = 0;
  std::size_t used = 0;  // indices of the epoch's order that all ranks together have used
  bool operator==(const distributed_sampler_state&) const = default;
};

class distributed_sampler {
 public:
  explicit distributed_sampler(const distributed_sampler_options& options);

  // Gives the next order its own shuffle. Call it on every rank before each epoch. Calling it for
  // the epoch that resume() continues keeps the position within that epoch.
  void set_epoch(std::uint64_t epoch) {
    if (epoch != at_.epoch) resume({epoch, 0});
  }

  // This rank's indices of the current epoch, in the order of use; after resume(), only those that
  // are left.
  std::vector<std::size_t> indices() const;

  // The number of indices(): the same on every rank.
  std::size_t size() const;

  // The state after every rank has used `used_here` of its indices(), at most size().
  distributed_sampler_state state(std::size_t used_here) const;

  // Continues within an epoch, with any number of ranks. What is left is split among the ranks
  // again, so that no index of the epoch is lost, and none is used twice except for the padding at
  // the end. Length, seed, shuffle and drop_last must be the same as before.
  void resume(const distributed_sampler_state& from);

 private:
  distributed_sampler_options options_;
  distributed_sampler_state at_;
};

// Cuts indices into batches of `batch_size` (at least 1). The last batch may be shorter; with
// `drop_last` a shorter one is left out. The spans point into `indices`, which must outlive them.
std::vector<std::span<const std::size_t>> batches(std::span<const std::size_t> indices,
                                                  std::size_t batch_size, bool drop_last = false);

}  // namespace ddprun::worker
