#include "worker/distributed_sampler.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace ddprun::worker {
namespace {

// torch.randperm: a Fisher-Yates shuffle from the front with 32 random bits for shorter lengths,
// and an inside-out one with 64 random bits for longer ones (randperm_cpu in ATen's
// TensorFactories.cpp).
std::vector<std::size_t> random_order(std::size_t length, std::uint64_t seed) {
  constexpr std::size_t short_enough = std::numeric_limits<std::uint32_t>::max() / 20;
  std::vector<std::size_t> order(length);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  if (length < short_enough) {
    for (std::size_t at = 0; at + 1 < length; ++at)
      std::swap(order[at], order[at + random() % (length - at)]);
    return order;
  }
  for (std::size_t at = 0; at < length; ++at) {
    const std::uint64_t high = random();
    const std::size_t other = (high << 32 | random()) % (at + 1);
    order[at] = order[other];
    order[other] = at;
  }
  return order;
}

}  // namespace

distributed_sampler::distributed_sampler(const distributed_sampler_options& options)
    : options_(options) {
  if (options.world_size == 0) {
    throw std::invalid_argument("distributed_sampler: world_size is 0, and must be at least 1");
  }
  if (options.rank >= options.world_size) {
    throw std::invalid_argument("distributed_sampler: rank " + std::to_string(options.rank) +
                                " of " + std::to_string(options.world_size) +
                                ": ranks count from 0, so that it must be below world_size");
  }
}

std::size_t distributed_sampler::size() const {
  const std::size_t left = options_.length - at_.used;
  const bool uneven = left % options_.world_size != 0;
  return left / options_.world_size + (uneven && !options_.drop_last ? 1 : 0);
}

std::vector<std::size_t> distributed_sampler::indices() const {
  std::vector<std::size_t> order;
  if (options_.shuffle) {
    order = random_order(options_.length, options_.seed + at_.epoch);
  } else {
    order.resize(options_.length);
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  std::vector<std::size_t> mine(size());
  for (std::size_t turn = 0; turn < mine.size(); ++turn) {
    const std::size_t position = at_.used + turn * options_.world_size + options_.rank;
    // Past its end the order starts again from its beginning, as often as needed. This is the
    // padding, and it also covers fewer samples than ranks.
    mine[turn] = order[position % order.size()];
  }
  return mine;
}

distributed_sampler_state distributed_sampler::state(std::size_t used_here) const {
  if (used_here > size()) {
    throw std::invalid_argument("distributed_sampler: state(" + std::to_string(used_here) +
                                "): this rank has " + std::to_string(size()) +
                                " indices in epoch " + std::to_string(at_.epoch) +
                                "; count those that it has used of this epoch's, from its begin or "
                                "its resume");
  }
  return {at_.epoch, std::min(options_.length, at_.used + used_here * options_.world_size)};
}

void distributed_sampler::resume(const distributed_sampler_state& from) {
  at_ = {from.epoch, std::min(from.used, options_.length)};
}

std::vector<std::span<const std::size_t>> batches(std::span<const std::size_t> indices,
                                                  std::size_t batch_size, bool drop_last) {
  if (batch_size == 0) {
    throw std::invalid_argument("batches: batch_size is 0, and must be at least 1");
  }
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
