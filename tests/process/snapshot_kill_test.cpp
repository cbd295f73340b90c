// A writer killed by SIGKILL at any moment, on the real file system: what it reported saved is
// found, and the next writer goes on.
#include "tests/support/catch.hpp"
#include "worker/snapshot.hpp"

#include <cstdlib>
#include <filesystem>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

constexpr int kills = 60;

std::string payload_of(std::uint64_t step) {
  return std::string(20'000 + step % 997, 'p');
}

snapshot_options options_for(const std::string& folder, round_number round) {
  snapshot_options options;
  options.folder = folder;
  options.instance = 5;
  options.round = round;
  return options;
}

// Saves for ever from the newest snapshot on, and writes every step that is saved to `report`.
[[noreturn]] void save_for_ever(const std::string& folder, round_number round, int report) {
  auto& files = posix_file_system();
  const auto newest = newest_snapshot(files, folder, write_to_stderr);
  auto writer = snapshot_writer::open(files, options_for(folder, round));
  if (!newest || !writer) ::_exit(3);
  for (std::uint64_t step = *newest ? (*newest)->info.step + 1 : 1;; ++step) {
    if (!writer->save(step, 0, payload_of(step))) ::_exit(4);
    if (::write(report, &step, sizeof step) != sizeof step) ::_exit(5);
  }
}

}  // namespace

TEST_CASE("a snapshot survives SIGKILL of its writer at any moment", "[process][snapshot]") {
  char folder[] = "/tmp/ddprun-snapshot-kill-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  std::uint64_t reported = 0;
  unsigned random = 1;
  for (int kill = 0; kill < kills; ++kill) {
    int report[2];
    REQUIRE(::pipe(report) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(report[0]);
      save_for_ever(folder, static_cast<round_number>(kill) + 1, report[1]);
    }
    ::close(report[1]);
    // Wait for one to three saves, then let it run on for a moment of no particular length.
    for (int saves = 0; saves < 1 + kill % 3; ++saves) {
      REQUIRE(::read(report[0], &reported, sizeof reported) == sizeof reported);
    }
    for (unsigned turns = (random = random * 1664525 + 1013904223) % 400'000; turns > 0; --turns) {
      asm volatile("");
    }
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    // What it said between our last look and its end counts too.
    while (::read(report[0], &reported, sizeof reported) == sizeof reported) {
    }
    ::close(report[0]);
    const auto found = newest_snapshot(posix_file_system(), folder, write_to_stderr);
    REQUIRE(found.has_value());
    REQUIRE(*found);
    const auto& info = (*found)->info;
    CHECK(info.step >= reported);
    CHECK(info.step <= reported + 1);
    CHECK(info.round == static_cast<round_number>(kill) + 1);
    CHECK((*found)->payload() == payload_of(info.step));
  }
  // Three snapshots, one claim and at most one temporary file: nothing piles up.
  const auto begin = std::filesystem::directory_iterator(folder);
  CHECK(std::distance(begin, std::filesystem::directory_iterator()) <= 6);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what the kernel says of a folder that cannot be written is told", "[process]") {
  std::string message;
  auto options = options_for("/proc/ddprun-snapshots", 1);
  options.on_message = [&](const std::string& line) { message = line; };
  const auto writer = snapshot_writer::open(posix_file_system(), options);
  REQUIRE(!writer);
  CHECK(writer.error() == error_code(ENOENT, boost::system::system_category()));
  CHECK(message ==
        "cannot make the snapshot folder /proc/ddprun-snapshots: No such file or directory");
}

}  // namespace ddprun::tests
