// Which samples each rank gets of a data set: seven cases of the distributed sampler, told in turn
// by all ranks. It needs neither LibTorch nor a network: what a rank gets follows from its number.
#include "worker/distributed_sampler.hpp"
#include "worker/environment.hpp"

#include <cstdio>
#include <exception>
#include <span>
#include <string>

namespace {

namespace worker = ddprun::worker;

std::string to_text(std::span<const std::size_t> indices) {
  std::string text;
  for (std::size_t at = 0; at < indices.size(); ++at)
    text += (at == 0 ? "" : " ") + std::to_string(indices[at]);
  return "[" + text + "]";
}

struct walk {
  const worker::environment& here;

  // At least 1 of each rank, so that there is something to see with any number of them.
  worker::distributed_sampler_options options(std::size_t length) const {
    worker::distributed_sampler_options made;
    made.length = length;
    made.world_size = here.world_size;
    made.rank = here.rank;
    made.shuffle = false;
    return made;
  }
  void tell(const char* what, const std::string& indices) const {
    std::printf("rank %u of %u | %-32s %s\n", here.rank, here.world_size, what, indices.c_str());
  }
  void tell(const char* what, const worker::distributed_sampler_options& with,
            std::uint64_t epoch = 0) const {
    worker::distributed_sampler sampler(with);
    sampler.set_epoch(epoch);
    tell(what, to_text(sampler.indices()));
  }

  void all() const {
    const std::size_t ranks = here.world_size;
    tell("1 even", options(2 * ranks));
    tell("2 padded with the first ones", options(2 * ranks + 1));
    auto cut = options(2 * ranks + 1);
    cut.drop_last = true;
    tell("3 the rest cut off", cut);
    auto shuffled = options(3 * ranks);
    shuffled.shuffle = true;
    tell("4 shuffled, epoch 0", shuffled, 0);
    tell("4 shuffled, epoch 1", shuffled, 1);
    tell("4 without set_epoch, once more", shuffled, 0);
    auto seeded = shuffled;
    seeded.seed = 1;
    tell("5 another seed, epoch 0", seeded, 0);
    tell("6 one sample for all", options(1));
    const auto indices = worker::distributed_sampler(options(5 * ranks)).indices();
    std::string batches;
    for (const auto batch : worker::batches(indices, 2))
      batches += (batches.empty() ? "" : " ") + to_text(batch);
    tell("7 in batches of two", batches);
  }
};

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const auto here = worker::read_environment();
    walk{here}.all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sampler_walk: %s\n", error.what());
    return 1;
  }
  return 0;
}
