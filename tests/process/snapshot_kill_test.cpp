// Two ranks save without end on the real file system. One of them or both are killed by SIGKILL at
// any moment, and the other a moment later, as a launcher would. What either of them reported as
// saved is found complete by the next ones.
//
// DDPRUN_TEST_KILLS: how often (by the effort of the test run, up to 100 times).
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/temporary_folder.hpp"
#include "worker/snapshot/snapshots.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <signal.h>

namespace ddprun::tests {
namespace {

using launcher::child_program;
using tests::temporary_folder;

int kills_wanted() {
  const char* const text = std::getenv("DDPRUN_TEST_KILLS");
  if (text != nullptr && *text != '\0') return std::atoi(text);
  return static_cast<int>(cases_to_take(100, 25).size());
}

// Runs for a random short time.
void run_on(std::mt19937& random, unsigned turns_max) {
  for (unsigned turns = static_cast<unsigned>(random()) % turns_max; turns > 0; --turns) {
    asm volatile("");
  }
}

// The last step that it reported as saved, or `before`.
long last_saved(const std::string& text, long before) {
  const std::size_t at = text.rfind("saved ");
  return at == std::string::npos ? before : std::max(before, std::atol(text.c_str() + at + 6));
}

struct round_of_two {
  round_of_two(const std::string& folder, int number) {
    const std::string port = std::to_string(store.port());
    for (int rank = 0; rank < 2; ++rank) {
      ranks[rank] = std::make_unique<child_program>(std::vector<std::string>{
          "snapshot_saver", folder, port, std::to_string(number), std::to_string(rank), "2"});
    }
  }
  served_store store;
  std::unique_ptr<child_program> ranks[2];
};

}  // namespace

TEST_CASE("snapshots survive SIGKILL of their writers at any moment", "[process][snapshot]") {
  const temporary_folder place;
  const std::string folder = place.path + "/f";
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  long reported = 0;
  const int kills = kills_wanted();
  for (int kill = 1; kill <= kills; ++kill) {
    INFO("kill " << kill);
    round_of_two both(folder, kill);
    auto& first = *both.ranks[0];
    const std::string resumed = first.line();
    CAPTURE(resumed);
    REQUIRE(resumed.find("wrong") == std::string::npos);
    REQUIRE(resumed == both.ranks[1]->line());
    const long from = std::atol(resumed.c_str() + std::string("resumed ").size());
    // There may be a snapshot whose report was cut off.
    REQUIRE(from >= reported);
    REQUIRE(from <= reported + 1);
    reported = from;
    const int saves = static_cast<int>(random() % 3);
    for (int save = 0; save < saves; ++save) {
      const std::string saved = first.line();
      CAPTURE(saved);
      REQUIRE(saved == "saved " + std::to_string(++reported));
    }
    run_on(random, 4'000'000);
    const unsigned victims = 1 + static_cast<unsigned>(random() % 3);  // rank 0, rank 1, both
    for (unsigned rank = 0; rank < 2; ++rank) {
      if ((victims & (1u << rank)) != 0) both.ranks[rank]->kill(SIGKILL);
    }
    // The other one may finish its part of the save, and what it does after that.
    run_on(random, 16'000'000);
    for (auto& rank : both.ranks) {
      rank->kill(SIGKILL);
      rank->wait();
    }
    // What they printed between our last read and their end counts, too.
    for (auto& rank : both.ranks)
      reported = last_saved(rank->rest(), reported);
  }
  // There are three snapshots, one claim, and at most one snapshot that was being written: nothing
  // accumulates.
  const auto begin = std::filesystem::directory_iterator(folder);
  CHECK(std::distance(begin, std::filesystem::directory_iterator()) <= 6);
}

TEST_CASE("what the kernel says of a folder that cannot be written is told", "[process]") {
  worker::snapshots_options options;
  options.folder = "/proc/ddprun-snapshots";
  std::string problem;
  const auto opened = worker::snapshots::open(worker::environment(), options, problem);
  REQUIRE(!opened);
  CHECK(opened.error() == system_error(ENOENT));
  CHECK(problem ==
        "cannot make the snapshot folder /proc/ddprun-snapshots: No such file or directory");
}

}  // namespace ddprun::tests
