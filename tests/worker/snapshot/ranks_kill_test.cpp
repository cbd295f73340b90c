// A job of two ranks that is killed at any step of either, and one whose disk loses power at any
// step: the next job must find what was reported saved, wherever its ranks run. On NFS each of them
// is then on the other machine, whose cache of the folder may be outdated.
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/worker/snapshot/two_ranks.hpp"

#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

struct life {
  std::size_t of_rank[two_ranks::ranks] = {};
  std::size_t of_disk = 0;
};

// The number of steps of a round that follows a successful one.
life steps_of_a_round(shared_by how, std::uint32_t writers) {
  two_ranks test(how, writers);
  test.live(1);
  life steps;
  for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank)
    steps.of_rank[rank] = test.views[rank].steps();
  steps.of_disk = test.disk.steps();
  test.live(2);
  for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank)
    steps.of_rank[rank] = test.views[rank].steps() - steps.of_rank[rank];
  steps.of_disk = test.disk.steps() - steps.of_disk;
  // At least a file is created, written and synced; otherwise nothing would be tested.
  for (const std::size_t of_rank : steps.of_rank)
    REQUIRE(of_rank >= 3);
  REQUIRE(steps.of_disk >= 3);
  return steps;
}

std::pair<shared_by, std::uint32_t> generate_folder() {
  return GENERATE(std::pair(shared_by::one_disk, 1u), std::pair(shared_by::one_disk, 2u),
                  std::pair(shared_by::nfs, 1u), std::pair(shared_by::nfs, 2u),
                  std::pair(shared_by::nfs_with_nocto, 1u),
                  std::pair(shared_by::nfs_with_nocto, 2u));
}

// Returns what a power cut at one of these steps breaks first; `lie` may let the disk lie about
// syncs.
template <typename Lie>
std::string first_wrong_after_a_cut(shared_by how, std::uint32_t writers, bool is_remembered,
                                    const std::vector<std::uint64_t>& steps, Lie lie) {
  for (const std::uint64_t at : steps) {
    two_ranks test(how, writers, static_cast<unsigned>(at));
    lie(test.disk);
    test.live(1);
    if (test.reported != 30) return "nothing saved";
    test.disk.cut_power(test.disk.steps() + at);
    test.live(2);
    test.restart_server();
    if (!is_remembered) test.start_machines();
    const std::string wrong = test.check(3);
    if (wrong.empty()) continue;
    return "cut at step " + std::to_string(at) + ": " + wrong + "; " + test.messages.text();
  }
  return "";
}

}  // namespace

TEST_CASE("a job that is killed at any step of a rank costs no snapshot", "[snapshot]") {
  const auto [how, writers] = generate_folder();
  const life steps = steps_of_a_round(how, writers);
  for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank) {
    for (const std::uint64_t at : cases_to_take(steps.of_rank[rank], 16)) {
      INFO("shared by " << static_cast<int>(how) << ", writers " << writers << ", rank " << rank
                        << ", killed at step " << at << " of " << steps.of_rank[rank]);
      two_ranks test(how, writers);
      test.live(1);
      REQUIRE(test.reported == 30);
      test.views[rank].kill_job_at(test.views[rank].steps() + at);
      test.live(2);
      const std::string wrong = test.check(3);
      INFO(test.messages.text());
      REQUIRE(wrong == "");
      test.reported = 1000;
      // The killed job's machines have the oldest possible cache.
      REQUIRE(test.check(4) == "");
    }
  }
}

TEST_CASE("a power cut at any step of the folder's disk costs no snapshot", "[snapshot]") {
  const auto [how, writers] = generate_folder();
  const auto honest = [](fault_file_system&) {};
  INFO("shared by " << static_cast<int>(how) << ", writers " << writers);
  const std::size_t steps = steps_of_a_round(how, writers).of_disk;
  CHECK(first_wrong_after_a_cut(how, writers, true, cases_to_take(steps, 24), honest) == "");
  // The machines may have lost their power too.
  if (how != shared_by::one_disk) {
    CHECK(first_wrong_after_a_cut(how, writers, false, cases_to_take(steps, 24), honest) == "");
  }
}

TEST_CASE("a server that lies about a sync is caught by the checker", "[snapshot]") {
  // Try every step until one of them reveals the lie.
  const std::size_t count = steps_of_a_round(shared_by::nfs, 1).of_disk;
  const auto all = spread_sample(count, count, 0);
  const auto in_files = [](fault_file_system& disk) { disk.lie_about_file_sync(); };
  const auto in_folders = [](fault_file_system& disk) { disk.lie_about_folder_sync(); };
  CHECK(first_wrong_after_a_cut(shared_by::nfs, 1, true, all, in_files) != "");
  CHECK(first_wrong_after_a_cut(shared_by::nfs, 1, true, all, in_folders) != "");
}

}  // namespace ddprun::tests
