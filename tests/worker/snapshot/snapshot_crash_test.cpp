// A snapshot that was reported saved is found complete after any crash: the power is cut at, and an
// error returned by, every single step of a short life of a folder.
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/worker/snapshot/fault_file_system.hpp"
#include "tests/worker/snapshot/lone_manifest.hpp"
#include "tests/worker/snapshot/small_job.hpp"

#include <array>

namespace ddprun::tests {
namespace {

using worker::snapshots;

constexpr unsigned seeds = 6;

result<open_snapshots> open(
    fault_file_system& files, round_number round,
    worker::message_handler on_message = [](const std::string&) {}) {
  worker::snapshots_options options;
  options.folder = "snapshots";
  options.keep = 2;
  options.is_asynchronous = round % 2 == 0;
  options.on_message = std::move(on_message);
  options.files = &files;
  std::string problem;
  return snapshots::open(lone_rank(round), options, problem);
}

struct saved {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  auto operator<=>(const saved&) const = default;
};

// Two rounds that save every ten steps; the second resumes from the first. Returns the newest
// snapshot that was reported saved. With `stop_at_error` it ends at the first error.
saved live(fault_file_system& files, bool stop_at_error) {
  saved newest;
  std::uint64_t step = 0;
  for (round_number round = 1; round <= 2; ++round) {
    const auto opened = open(files, round);
    if (!opened && stop_at_error) return newest;
    if (!opened) continue;
    for (int turn = 0; turn < 4; ++turn) {
      step += 10;
      const auto error = save(*opened, step);
      if (!error) newest = {(*opened)->generation(), step};
      if (error && stop_at_error) return newest;
    }
  }
  return newest;
}

// Returns an empty text if the folder contains at least `reported`, complete, and can be used
// again; otherwise what is wrong.
std::string check(fault_file_system& files, saved reported) {
  if (auto wrong = lone_manifest(files, "snapshots"); !wrong.empty()) return wrong;
  message_list messages;
  const auto opened = open(files, 3, messages.handler());
  if (!opened) return "cannot be opened: " + opened.error().message() + "; " + messages.text();
  if ((*opened)->generation() <= reported.generation) return "an old generation";
  const auto& found = (*opened)->resumed();
  if (!found && reported.step != 0) return "nothing found; " + messages.text();
  if (found) {
    if (saved{found->info.generation, found->info.step} < reported) {
      return "an older one found; " + messages.text();
    }
    const std::string wrong = small_state(found->info.step).compare(*found);
    if (!wrong.empty()) return wrong;
  }
  // Use the folder as the next round does.
  if (const auto error = save(*opened, 1000)) return "cannot be saved to: " + error.message();
  const auto next = open(files, 4);
  if (!next || !(*next)->resumed()) return "what was saved is not found";
  const std::string wrong = small_state(1000).compare(*(*next)->resumed());
  return wrong.empty() ? lone_manifest(files, "snapshots") : wrong;
}

std::size_t steps_of_a_life() {
  fault_file_system files;
  live(files, true);
  return files.steps();
}

// Returns the first violation in these cases (a cut and a seed), on a disk set up by `prepare`.
template <typename Prepare>
std::string violation(const std::vector<std::uint64_t>& cases, Prepare prepare) {
  for (const std::uint64_t number : cases) {
    const auto seed = static_cast<unsigned>(number % seeds);
    const std::uint64_t cut = number / seeds;
    fault_file_system files(seed);
    prepare(files);
    files.cut_power(cut);
    const saved reported = live(files, true);
    files.reboot();
    const std::string wrong = check(files, reported);
    if (!wrong.empty()) {
      return "cut at step " + std::to_string(cut) + ", seed " + std::to_string(seed) + ": " + wrong;
    }
  }
  return "";
}

}  // namespace

TEST_CASE("a power cut at any step costs no snapshot that was reported saved", "[snapshot]") {
  const std::size_t steps = steps_of_a_life();
  REQUIRE(steps > 100);
  CHECK(violation(cases_to_take(steps * seeds, 240), [](fault_file_system&) {}) == "");
}

TEST_CASE("a disk that lies about a sync is caught by the checker", "[snapshot]") {
  // Try every case until one of them reveals the lie.
  const std::uint64_t count = steps_of_a_life() * seeds;
  const auto all = spread_sample(count, count, 0);
  CHECK(violation(all, [](fault_file_system& files) { files.lie_about_file_sync(); }) != "");
  CHECK(violation(all, [](fault_file_system& files) { files.lie_about_folder_sync(); }) != "");
}

TEST_CASE("an error of any step leaves the earlier snapshots as they are", "[snapshot]") {
  const std::size_t steps = steps_of_a_life();
  const std::array numbers = {ENOSPC, EIO, EROFS, EDQUOT};
  for (const std::uint64_t which : cases_to_take(steps * numbers.size() * 2, 240)) {
    const bool only_once = which % 2 == 0;
    const int number = numbers[which / 2 % numbers.size()];
    const std::uint64_t at = which / 2 / numbers.size();
    INFO("step " << at << " of " << steps << ", errno " << number << ", once " << only_once);
    fault_file_system files(1);
    files.fail(at, number, only_once);
    const saved reported = live(files, false);
    files.reboot();
    REQUIRE(check(files, reported) == "");
  }
}

TEST_CASE("a first save that fails leaves nothing that stops the next job", "[snapshot]") {
  for (std::size_t failing = 0;; ++failing) {
    INFO("step " << failing);
    fault_file_system files;
    const auto job = open(files, 1);
    REQUIRE(job.has_value());
    const std::size_t before = files.steps();
    files.fail(before + failing, EIO, true);
    const auto error = save(*job, 10);
    if (files.steps() <= before + failing) break;  // all steps have been tried
    REQUIRE(check(files, error ? saved{} : saved{1, 10}) == "");
  }
}

// A failed save may exist nevertheless: trying again must not remove its files.
TEST_CASE("a save that is tried again leaves a snapshot, whatever failed before", "[snapshot]") {
  for (std::size_t count = 1; count <= 4; ++count) {
    for (std::size_t failing = 0;; ++failing) {
      INFO("steps " << failing << " to " << failing + count - 1);
      fault_file_system files;
      message_list messages;
      const auto job = open(files, 1, messages.handler());
      REQUIRE(job.has_value());
      REQUIRE_FALSE(save(*job, 10));
      const std::size_t before = files.steps();
      files.fail_number_of(before + failing, count, EIO);
      auto error = save(*job, 20);
      if (files.steps() <= before + failing) break;  // all steps have been tried
      for (int again = 0; error && again < 5; ++again)
        error = save(*job, 20);
      files.fail_number_of(0, 0, 0);
      INFO(messages.text());
      CHECK_FALSE(error);
      REQUIRE(check(files, {1, 20}) == "");
    }
  }
}

// The save that ends the oldest snapshot fails, or its job is killed, between any two of its steps.
// Then the next save, or the next job, finds the manifest gone, whether or not that was synced.
TEST_CASE("no file of an old snapshot goes before the end of it is on the disk", "[snapshot]") {
  const bool is_killed = GENERATE(true, false);
  for (std::size_t failing = 0;; ++failing) {
    INFO("step " << failing);
    fault_file_system files(static_cast<unsigned>(failing));
    auto first = open(files, 1);
    REQUIRE(first.has_value());
    open_snapshots job = std::move(*first);
    REQUIRE_FALSE(save(job, 10));
    REQUIRE_FALSE(save(job, 20));
    const std::size_t before = files.steps();
    files.fail(before + failing, EIO, !is_killed);
    (void)save(job, 30);
    if (files.steps() <= before + failing) break;  // all steps have been tried
    if (is_killed) {
      job.reset();
      files.fail_number_of(0, 0, 0);
      auto second = open(files, 2);
      REQUIRE(second.has_value());
      job = std::move(*second);
    }
    REQUIRE_FALSE(save(job, 40));
    REQUIRE(lone_manifest(files, "snapshots") == "");
    files.reboot();
    REQUIRE(check(files, {job->generation(), 40}) == "");
  }
}

TEST_CASE("a full disk is named, and the next save works when there is room", "[snapshot]") {
  fault_file_system files;
  message_list messages;
  const auto opened = open(files, 1, messages.handler());
  REQUIRE(opened.has_value());
  const open_snapshots& job = *opened;
  REQUIRE_FALSE(save(job, 10));
  const error_code full = system_error(ENOSPC);
  // Let writing the file fail. The steps are: folder, removal of a leftover, creation, header,
  // first tensor.
  files.fail(files.steps() + 4, ENOSPC, true);
  CHECK(save(job, 20) == full);
  const std::string problem =
      "cannot save snapshot snapshots/snapshot-000001-000020: rank 0: cannot write "
      "rank-00000.safetensors (";
  CHECK(messages.last().starts_with(problem));
  CHECK(messages.last().ends_with(" bytes): No space left on device"));
  CHECK(job->problem() == messages.last());
  CHECK(!files.exists("snapshots/snapshot-000001-000020"));
  REQUIRE_FALSE(save(job, 20));
  CHECK(check(files, {1, 20}) == "");
}

}  // namespace ddprun::tests
