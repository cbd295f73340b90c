#include "worker/distributed_sampler.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ddprun::worker {
namespace {

// SplitMix64 by Sebastiano Vigna (public domain): one word of state, any seed is good.
class generator {
 public:
  explicit generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = (state_ += 0x9e3779b97f4a7c15U);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }

  // Uniform in 0 to limit - 1: values in the incomplete last stretch are drawn again.
  std::uint64_t below(std::uint64_t limit) {
    const std::uint64_t first_fair = (0 - limit) % limit;
    for (;;) {
      const std::uint64_t value = next();
      if (value >= first_fair) return value % limit;
    }
  }

 private:
  std::uint64_t state_;
};

// Seed and epoch go through the generator one after the other, so that (seed 1, epoch 0) and
// (seed 0, epoch 1) differ; PyTorch adds them, and gives both the same order.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t epoch) {
  return generator(generator(seed).next() ^ epoch).next();
}

}  // namespace

distributed_sampler::distributed_sampler(const distributed_sampler_options& options)
    : options_(options) {
  DDPRUN_ASSERT(options.world_size >= 1);
  DDPRUN_ASSERT(options.rank < options.world_size);
  const std::size_t even = options.length / options.world_size;
  const bool uneven = options.length % options.world_size != 0;
  size_ = uneven && !options.drop_last ? even + 1 : even;
}

std::vector<std::size_t> distributed_sampler::indices() const {
  std::vector<std::size_t> order(options_.length);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options_.shuffle) {
    generator random(mixed(options_.seed, epoch_));
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[random.below(left)]);
    }
  }
  std::vector<std::size_t> mine;
  mine.reserve(size_);
  for (std::size_t turn = 0; turn < size_; ++turn) {
    const std::size_t position = turn * options_.world_size + options_.rank;
    // Beyond the end the order starts again from its beginning, as often as needed: that is the
    // padding, also where there are fewer samples than ranks.
    mine.push_back(order[position % order.size()]);
  }
  return mine;
}

std::vector<std::span<const std::size_t>> batches(std::span<const std::size_t> indices,
                                                  std::size_t batch_size, bool drop_last) {
  DDPRUN_ASSERT(batch_size >= 1);
  std::vector<std::span<const std::size_t>> result;
  while (!indices.empty()) {
    const std::size_t count = std::min(batch_size, indices.size());
    if (count < batch_size && drop_last) break;
    result.push_back(indices.first(count));
    indices = indices.subspan(count);
  }
  return result;
}

}  // namespace ddprun::worker
