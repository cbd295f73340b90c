// Prints the sampler's indices: reads lines "length world_size rank shuffle drop_last seed epoch"
// of numbers, and writes a line of indices for each.
#include "worker/distributed_sampler.hpp"

#include <iostream>

int main() {
  ddprun::worker::distributed_sampler_options options;
  std::uint64_t epoch = 0;
  while (std::cin >> options.length >> options.world_size >> options.rank >> options.shuffle >>
         options.drop_last >> options.seed >> epoch) {
    ddprun::worker::distributed_sampler sampler(options);
    sampler.set_epoch(epoch);
    for (const std::size_t index : sampler.indices())
      std::cout << index << ' ';
    std::cout << '\n';
  }
}
