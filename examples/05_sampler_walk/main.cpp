// Shows which samples of a data set each rank gets, in seven cases of the distributed sampler; the
// ranks print in turn. It needs neither LibTorch nor a network, because a rank's samples follow
// from its number.
#include "worker/distributed_sampler.hpp"
#include "worker/environment.hpp"

#include <charconv>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

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

  // Lengths grow with the world size, so that every case shows something with any number of ranks.
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

constexpr const char* usage =
    "usage: sampler_walk [--rank N --world-size N]\n\n"
    "Says which samples each rank gets of a data set. Started by ddprun or torchrun it needs no\n"
    "option; by hand both.\n";

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::uint32_t read_number(std::string_view option, std::string_view text, std::uint32_t least) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc{} && rest == end && value >= least) return value;
  throw refused(std::string(option) + " is '" + std::string(text) +
                "': it must be a whole number of at least " + std::to_string(least));
}

// Reads the two options, or the launcher's variables. None if help was asked for.
std::optional<worker::environment> read_place(int count, char** values) {
  std::optional<std::uint32_t> rank, world_size;
  for (int at = 1; at < count; ++at) {
    std::string_view option = values[at];
    if (option == "--help" || option == "-h") return std::nullopt;
    const auto equals = option.find('=');
    std::string_view text;
    if (equals != option.npos) {
      text = option.substr(equals + 1);
      option = option.substr(0, equals);
    }
    if (option != "--rank" && option != "--world-size") {
      throw refused(std::string(option) + " is no option; --help lists them");
    }
    if (equals == option.npos && ++at == count)
      throw refused(std::string(option) + " needs a number");
    if (equals == option.npos) text = values[at];
    if (option == "--rank") rank = read_number(option, text, 0);
    if (option == "--world-size") world_size = read_number(option, text, 1);
  }
  if (!rank && !world_size) return worker::read_environment();
  if (!rank || !world_size) throw refused("--rank and --world-size go together");
  if (*rank >= *world_size) {
    throw refused("rank " + std::to_string(*rank) + " of " + std::to_string(*world_size) +
                  " does not exist: ranks are 0 to the world size minus one");
  }
  worker::environment here;
  here.rank = *rank;
  here.world_size = *world_size;
  return here;
}

}  // namespace

int main(int count, char** values) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    const auto here = read_place(count, values);
    if (here) walk{*here}.all();
    if (!here) std::fputs(usage, stdout);
  } catch (const refused& error) {
    std::fprintf(stderr, "sampler_walk: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sampler_walk: %s\n", error.what());
    return 1;
  }
  return 0;
}
