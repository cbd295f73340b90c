// A roll call: every rank records where it runs, counts itself in, and waits until all have come.
// Then rank 0 prints the list. It needs only a TCPStore, neither LibTorch nor a launcher.
//
//   roll_call                                       // under ddprun or torchrun
//   roll_call HOST PORT RANK WORLD_SIZE MEETING     // by hand, with any TCPStore
#include "worker/store_client.hpp"

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using ddprun::worker::deadline;
using ddprun::worker::environment;
using ddprun::worker::store_client;

constexpr std::chrono::seconds patience(60);

int fail(const std::string& problem) {
  std::fprintf(stderr, "roll_call: %s\n", problem.c_str());
  return 1;
}

std::string this_place() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ", process " + std::to_string(::getpid());
}

template <typename Number>
Number number(const char* text, Number low, Number high) {
  const std::string_view all = text;
  Number value{};
  const auto [rest, failure] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (failure != std::errc() || rest != all.data() + all.size() || value < low || value > high) {
    throw ddprun::worker::environment_error("'" + std::string(all) + "' must be a number from " +
                                            std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

environment by_hand(char** words) {
  environment here;
  here.master_address = words[1];
  here.master_port = number<std::uint16_t>(words[2], 1, 65535);
  here.world_size = number<std::uint32_t>(words[4], 1, 1'000'000);
  here.rank = number<std::uint32_t>(words[3], 0, here.world_size - 1);
  here.agent_store = true;  // the store exists already
  return here;
}

// Each meeting has a prefix of its own, because keys of an earlier one at the same store would
// count too.
int hold(const environment& here, const std::string& meeting) {
  const deadline until = patience;
  std::string problem;
  auto joined = store_client::from_environment(here, until, problem);
  if (!joined) return fail(problem);
  store_client store = joined->with_prefix("roll_call/" + meeting);

  if (store.set("rank" + std::to_string(here.rank), this_place(), until)) {
    return fail(store.problem());
  }
  const auto count = store.add("count", 1, until);
  if (!count) return fail(store.problem());
  if (*count > here.world_size) return fail("meeting '" + meeting + "' was held before");
  if (*count == here.world_size && store.set("complete", "", until)) return fail(store.problem());
  if (store.wait("complete", until)) return fail(store.problem());

  if (here.rank == 0) {
    std::vector<std::string> keys;
    for (std::uint32_t rank = 0; rank < here.world_size; ++rank)
      keys.push_back("rank" + std::to_string(rank));
    const auto places = store.multi_get(keys, until);
    if (!places) return fail(store.problem());
    for (std::uint32_t rank = 0; rank < here.world_size; ++rank)
      std::printf("rank %u of %u: %s\n", rank, here.world_size, (*places)[rank].c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 1 && argc != 6) {
    std::fputs("usage: roll_call [HOST PORT RANK WORLD_SIZE MEETING]\n", stderr);
    return 2;
  }
  try {
    const environment here = argc == 1 ? ddprun::worker::read_environment() : by_hand(argv);
    return hold(here, argc == 1 ? "round" + std::to_string(here.round) : argv[5]);
  } catch (const ddprun::worker::environment_error& error) {
    fail(error.what());
    return 2;
  }
}
