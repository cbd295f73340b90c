// A distributed sampler deals the indices of a data set out to the ranks: every rank gets the same
// number, and together they get each index once (or, to come out even, a few twice or not at all).
//
// It is PyTorch's torch.utils.data.DistributedSampler, index for index: rank r takes indices r,
// r + world, r + 2 world... of the (shuffled) order; without `drop_last` the order is padded from
// its own beginning until it divides, with it the rest is cut off. The shuffle is torch.randperm
// with a generator of `seed + epoch`: the Mersenne twister mt19937, which C++ has too, so LibTorch
// is not needed for it.
//
// As there, without `set_epoch` a shuffled order is the same in every epoch.
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

// How far an epoch has come, for a snapshot: equal on all ranks.
struct distributed_sampler_state {
  std::uint64_t epoch = 0;
  std::size_t used = 0;  // of the epoch's order, by all ranks together
  bool operator==(const distributed_sampler_state&) const = default;
};

class distributed_sampler {
 public:
  explicit distributed_sampler(const distributed_sampler_options& options);

  // Gives the next order its own shuffle. Call it on every rank before each epoch; in the one that
  // resume() is in, what is left stays left.
  void set_epoch(std::uint64_t epoch) {
    if (epoch != at_.epoch) resume({epoch, 0});
  }

  // This rank's indices of the current epoch, in the order in which to use them; after resume()
  // those that are left.
  std::vector<std::size_t> indices() const;

  // How many that are: the same on every rank.
  std::size_t size() const;

  // The state once every rank has used so many of its indices(), at most size().
  distributed_sampler_state state(std::size_t used_here) const;

  // Goes on within an epoch, with any number of ranks: what is left is dealt out anew, so that no
  // index of the epoch is lost, or used twice but for the padding at its end. Length, seed, shuffle
  // and drop_last must be as they were.
  void resume(const distributed_sampler_state& from);

 private:
  distributed_sampler_options options_;
  distributed_sampler_state at_;
};

// Cuts indices into batches of `batch_size` (at least 1). The last one may be shorter; with
// `drop_last` a shorter one is left out. The spans point into `indices`, which must outlive them.
std::vector<std::span<const std::size_t>> batches(std::span<const std::size_t> indices,
                                                  std::size_t batch_size, bool drop_last = false);

}  // namespace ddprun::worker
