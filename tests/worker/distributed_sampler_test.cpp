// The seven cases of PyTorch's DistributedSampler. The unshuffled orders are torch's.
#include "worker/distributed_sampler.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace ddprun::tests {
namespace {

using worker::distributed_sampler;
using worker::distributed_sampler_options;
using worker::distributed_sampler_state;
using indices = std::vector<std::size_t>;

distributed_sampler make(std::size_t length, std::uint32_t world_size, std::uint32_t rank,
                         bool shuffle, bool drop_last = false, std::uint64_t seed = 0) {
  distributed_sampler_options options;
  options.length = length;
  options.world_size = world_size;
  options.rank = rank;
  options.shuffle = shuffle;
  options.drop_last = drop_last;
  options.seed = seed;
  return distributed_sampler(options);
}

std::vector<indices> all_ranks(std::size_t length, std::uint32_t world_size, bool shuffle,
                               bool drop_last, std::uint64_t epoch = 0, std::uint64_t seed = 0) {
  std::vector<indices> result;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    auto sampler = make(length, world_size, rank, shuffle, drop_last, seed);
    sampler.set_epoch(epoch);
    result.push_back(sampler.indices());
    REQUIRE(result.back().size() == sampler.size());
  }
  return result;
}

indices together(const std::vector<indices>& ranks) {
  indices result;
  for (const auto& rank : ranks)
    result.insert(result.end(), rank.begin(), rank.end());
  std::sort(result.begin(), result.end());
  return result;
}

indices all_below(std::size_t length) {
  indices result(length);
  std::iota(result.begin(), result.end(), std::size_t{0});
  return result;
}

}  // namespace

TEST_CASE("sampler case 1: a length that divides is split evenly", "[sampler]") {
  CHECK(all_ranks(8, 4, false, false) == std::vector<indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE("sampler case 2: padding from the beginning when it does not divide", "[sampler]") {
  CHECK(all_ranks(10, 4, false, false) ==
        std::vector<indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
}

TEST_CASE("sampler case 3: drop_last cuts the rest off", "[sampler]") {
  CHECK(all_ranks(10, 4, false, true) == std::vector<indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(all_ranks(8, 4, false, true) == std::vector<indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST_CASE("sampler case 4: shuffled without set_epoch, every epoch is the same", "[sampler]") {
  const auto sampler = make(100, 4, 1, true);
  CHECK(sampler.indices() == sampler.indices());
  CHECK(sampler.indices() != make(100, 4, 1, false).indices());
  CHECK(together(all_ranks(100, 4, true, false)) == all_below(100));
}

TEST_CASE("sampler case 5: set_epoch gives every epoch its own order", "[sampler]") {
  auto sampler = make(100, 4, 1, true);
  const auto first = sampler.indices();
  sampler.set_epoch(1);
  const auto second = sampler.indices();
  CHECK(first != second);
  sampler.set_epoch(0);
  CHECK(sampler.indices() == first);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    CHECK(together(all_ranks(100, 4, true, false, epoch)) == all_below(100));
  }
}

TEST_CASE("sampler case 6: the seed decides the order", "[sampler]") {
  CHECK(make(100, 4, 1, true, false, 7).indices() == make(100, 4, 1, true, false, 7).indices());
  CHECK(make(100, 4, 1, true, false, 7).indices() != make(100, 4, 1, true, false, 8).indices());
  // As in PyTorch, seed and epoch are added.
  auto next_epoch = make(100, 4, 1, true, false, 0);
  next_epoch.set_epoch(1);
  CHECK(next_epoch.indices() == make(100, 4, 1, true, false, 1).indices());
  // torch.randperm(10, generator=torch.Generator().manual_seed(42))
  CHECK(make(10, 1, 0, true, false, 42).indices() == indices{2, 6, 1, 8, 4, 5, 0, 9, 3, 7});
}

TEST_CASE("sampler case 7: fewer samples than ranks", "[sampler]") {
  CHECK(all_ranks(3, 8, false, false) ==
        std::vector<indices>{{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}});
  for (const auto& rank : all_ranks(3, 8, false, true))
    CHECK(rank.empty());
  for (const auto& rank : all_ranks(0, 8, true, false))
    CHECK(rank.empty());
}

TEST_CASE("sampler: an epoch goes on with other numbers of ranks, and no index is lost",
          "[sampler]") {
  const std::uint32_t seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int run = 0; run < 200; ++run) {
    distributed_sampler_options options;
    options.length = below(50);
    options.shuffle = below(2) == 0;
    options.seed = random();
    distributed_sampler_state state{below(5), 0};
    std::vector<std::size_t> seen(options.length);
    std::size_t padding = 0;
    INFO("run " << run << ", length " << options.length);
    while (state.used < options.length) {
      options.world_size = 1 + static_cast<std::uint32_t>(below(7));
      distributed_sampler_state next;
      std::size_t used = 0;
      for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        distributed_sampler sampler(options);
        sampler.resume(state);
        const auto mine = sampler.indices();
        if (options.rank == 0) used = below(mine.size() + 1);
        for (std::size_t at = 0; at < used; ++at)
          ++seen[mine[at]];
        next = sampler.state(used);
        CHECK(next.epoch == state.epoch);
      }
      padding += state.used + used * options.world_size - next.used;
      state = next;
    }
    CHECK(padding < 7);
    std::size_t more = 0;
    for (const std::size_t count : seen) {
      CHECK(count >= 1);
      more += count - 1;
    }
    CHECK(more == padding);
  }
}

TEST_CASE("sampler: a new epoch begins at its beginning", "[sampler]") {
  auto sampler = make(10, 2, 1, true);
  sampler.resume({3, 4});
  CHECK(sampler.size() == 3);
  CHECK(sampler.state(1) == distributed_sampler_state{3, 6});
  sampler.set_epoch(4);
  CHECK(sampler.size() == 5);
}

TEST_CASE("sampler: the epoch that is resumed keeps its position when it is set", "[sampler]") {
  auto sampler = make(10, 2, 1, true);
  sampler.resume({3, 4});
  const auto left = sampler.indices();
  // Every loop does this before each epoch, also before the first one after a resume.
  sampler.set_epoch(3);
  CHECK(sampler.indices() == left);
  CHECK(sampler.state(1) == distributed_sampler_state{3, 6});
  sampler.set_epoch(4);
  sampler.set_epoch(3);
  CHECK(sampler.size() == 5);
}

TEST_CASE("sampler: batches cut the indices in order", "[sampler]") {
  const auto mine = make(22, 2, 0, false).indices();
  const auto cut = worker::batches(mine, 4);
  REQUIRE(cut.size() == 3);
  CHECK(indices(cut[0].begin(), cut[0].end()) == indices{0, 2, 4, 6});
  CHECK(indices(cut[2].begin(), cut[2].end()) == indices{16, 18, 20});
  CHECK(worker::batches(mine, 4, true).size() == 2);
  CHECK(worker::batches(mine, 100).size() == 1);
  CHECK(worker::batches({}, 4).empty());
}

TEST_CASE("sampler: a shuffle is fair", "[sampler]") {
  // Index 0 of 4 should land about 1,000 times in each place over 4,000 epochs.
  std::vector<int> places(4);
  auto sampler = make(4, 1, 0, true);
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
    sampler.set_epoch(epoch);
    const auto order = sampler.indices();
    ++places[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0U) - order.begin())];
  }
  for (const int count : places) {
    CHECK(count > 850);
    CHECK(count < 1150);
  }
}

TEST_CASE("sampler: what cannot be is refused with a line", "[sampler]") {
  CHECK_THROWS_WITH(make(10, 0, 0, true),
                    "distributed_sampler: world_size is 0, and must be at least 1");
  CHECK_THROWS_WITH(make(10, 4, 4, true),
                    "distributed_sampler: rank 4 of 4: ranks count from 0, so that it must be "
                    "below world_size");
  auto sampler = make(10, 2, 1, true);
  sampler.set_epoch(3);
  CHECK_THROWS_WITH(sampler.state(6),
                    "distributed_sampler: state(6): this rank has 5 indices in epoch 3; count "
                    "those that it has used of this epoch's, from its begin or its resume");
  const auto mine = sampler.indices();
  CHECK_THROWS_WITH(worker::batches(mine, 0), "batches: batch_size is 0, and must be at least 1");
  CHECK(sampler.state(5) == distributed_sampler_state{3, 10});
}

}  // namespace ddprun::tests
