// A snapshot that was reported saved is found and whole after any crash: the power is cut at,
// and an error returned by, each single step of a short life of a folder.
#include "tests/support/catch.hpp"
#include "tests/worker/fault_file_system.hpp"
#include "worker/snapshot.hpp"

namespace ddprun::tests {
namespace {

using worker::newest_snapshot;
using worker::snapshot_options;
using worker::snapshot_writer;

const std::string folder = "snapshots";
constexpr unsigned seeds = 12;

std::string payload_of(std::uint64_t tenure, std::uint64_t step) {
  return std::string(200, static_cast<char>('a' + step % 26)) + std::to_string(tenure) + "/" +
         std::to_string(step);
}

snapshot_options quiet(round_number round) {
  snapshot_options options;
  options.folder = folder;
  options.keep = 2;
  options.instance = 77;
  options.round = round;
  options.on_message = [](const std::string&) {};
  return options;
}

struct saved {
  std::uint64_t tenure = 0;
  std::uint64_t step = 0;
  auto operator<=>(const saved&) const = default;
};

// Two rounds that save every ten steps, the second from where the first ended. Returns the newest
// that was reported saved; ends with the first error when `stop_at_error`.
saved live(fault_file_system& files, bool stop_at_error) {
  saved newest;
  std::uint64_t step = 0;
  for (round_number round = 1; round <= 2; ++round) {
    auto writer = snapshot_writer::open(files, quiet(round));
    if (!writer && stop_at_error) return newest;
    if (!writer) continue;
    for (int turn = 0; turn < 4; ++turn) {
      step += 10;
      const auto path = writer->save(step, step / 10, payload_of(writer->tenure(), step));
      if (path) newest = {writer->tenure(), step};
      if (!path && stop_at_error) return newest;
    }
  }
  return newest;
}

// Empty when the folder holds at least `reported`, whole; else what is wrong.
std::string check(fault_file_system& files, saved reported) {
  std::string messages;
  const auto found =
      newest_snapshot(files, folder, [&](const std::string& line) { messages += line + "; "; });
  if (!found) return "cannot be read: " + found.error().message();
  if (!*found) return reported.step == 0 ? "" : "nothing found; " + messages;
  const auto& info = (*found)->info;
  if (saved{info.tenure, info.step} < reported) return "an older one found; " + messages;
  if ((*found)->payload() != payload_of(info.tenure, info.step)) return "wrong bytes";
  return "";
}

std::size_t steps_of_a_life() {
  fault_file_system files;
  live(files, true);
  return files.steps();
}

// How many of all cuts and seeds break the rule, on a disk prepared by `prepare`.
template <typename Prepare>
int violations(Prepare prepare) {
  int count = 0;
  const std::size_t steps = steps_of_a_life();
  for (std::size_t cut = 0; cut < steps; ++cut) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      fault_file_system files(seed);
      prepare(files);
      files.cut_power(cut);
      const saved reported = live(files, true);
      files.reboot();
      if (!check(files, reported).empty()) ++count;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a power cut at any step costs no snapshot that was reported saved", "[snapshot]") {
  const std::size_t steps = steps_of_a_life();
  REQUIRE(steps > 50);
  for (std::size_t cut = 0; cut < steps; ++cut) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      INFO("cut at step " << cut << " of " << steps << ", seed " << seed);
      fault_file_system files(seed);
      files.cut_power(cut);
      const saved reported = live(files, true);
      files.reboot();
      REQUIRE(check(files, reported) == "");
      // The folder is not only readable, it can be used again, as the next round does it.
      auto writer = snapshot_writer::open(files, quiet(3));
      REQUIRE(writer.has_value());
      REQUIRE(writer->tenure() > reported.tenure);
      REQUIRE(writer->save(5, 1, payload_of(writer->tenure(), 5)).has_value());
      REQUIRE(check(files, {writer->tenure(), 5}) == "");
    }
  }
}

TEST_CASE("a disk that lies about a sync is caught by the checker", "[snapshot]") {
  CHECK(violations([](fault_file_system&) {}) == 0);
  CHECK(violations([](fault_file_system& files) { files.lie_about_file_sync(); }) > 0);
  CHECK(violations([](fault_file_system& files) { files.lie_about_folder_sync(); }) > 0);
}

TEST_CASE("an error of any step leaves the earlier snapshots as they are", "[snapshot]") {
  const std::size_t steps = steps_of_a_life();
  for (const int number : {ENOSPC, EIO, EROFS, EDQUOT}) {
    for (std::size_t at = 0; at < steps; ++at) {
      for (const bool only_once : {true, false}) {
        INFO("step " << at << " of " << steps << ", errno " << number << ", once " << only_once);
        fault_file_system files(1);
        files.fail(at, number, only_once);
        const saved reported = live(files, false);
        files.reboot();
        REQUIRE(check(files, reported) == "");
      }
    }
  }
}

TEST_CASE("a full disk is named, and the next save works when there is room", "[snapshot]") {
  fault_file_system files;
  std::string messages;
  auto options = quiet(1);
  options.on_message = [&](const std::string& line) { messages += line + "\n"; };
  auto writer = snapshot_writer::open(files, options);
  REQUIRE(writer.has_value());
  REQUIRE(writer->save(10, 1, payload_of(1, 10)).has_value());
  files.fail(files.steps() + 3, ENOSPC, true);
  const auto failed = writer->save(20, 2, payload_of(1, 20));
  REQUIRE(!failed);
  CHECK(failed.error() == error_code(ENOSPC, boost::system::system_category()));
  CHECK(messages ==
        "cannot save snapshot snapshots/snapshot-000001-000020.ddprun (276 bytes): "
        "No space left on device\n");
  CHECK(check(files, {1, 10}) == "");
  REQUIRE(writer->save(20, 2, payload_of(1, 20)).has_value());
  CHECK(check(files, {1, 20}) == "");
}

}  // namespace ddprun::tests
