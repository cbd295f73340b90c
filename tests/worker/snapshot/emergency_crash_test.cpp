// An emergency snapshot whose writer is killed, whose disk fails, or whose server loses power, at
// any step of it: the next job finds it, where it was reported saved, or else the last whole one.
// On NFS each rank runs on the other machine then, which may remember of the folder what it was.
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/worker/snapshot/two_ranks.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::tests {
namespace {

// What goes wrong at a step of the survivor's, or of the server's.
enum class mishap { none, kill, one_error, errors, power_cut };

struct emergency_life {
  shared_by how = shared_by::one_disk;
  std::uint32_t writers = 1;
  std::uint32_t survivor = 0;

  // Empty, or what was wrong.
  std::string after(mishap what, std::uint64_t at, bool is_lied_to = false) {
    two_ranks test(how, writers, static_cast<unsigned>(at));
    if (is_lied_to) test.disk.lie_about_file_sync();
    auto& view = test.views[survivor];
    std::size_t of_view = 0, of_disk = 0;
    test.live(1);
    test.live_and_lose(2, survivor, [&] {
      of_view = view.steps();
      of_disk = test.disk.steps();
      if (what == mishap::kill) view.kill_job_at(of_view + at);
      if (what == mishap::one_error) view.fail(of_view + at, 1);
      if (what == mishap::errors) view.fail(of_view + at, ~std::size_t{0});
      if (what == mishap::power_cut) test.disk.cut_power(of_disk + at);
    });
    view_steps = view.steps() - of_view;
    disk_steps = test.disk.steps() - of_disk;
    is_saved = test.reported == 55;
    if (what == mishap::power_cut) test.restart_server();
    if (test.reported < 50) return "the whole ones were not saved";
    const std::string wrong = test.check(3);
    return wrong.empty() ? "" : wrong + "; " + test.messages.text();
  }

  // Of the last one.
  std::size_t view_steps = 0;
  std::size_t disk_steps = 0;
  bool is_saved = false;
};

emergency_life generate_emergency() {
  emergency_life life;
  life.how = GENERATE(shared_by::one_disk, shared_by::nfs, shared_by::nfs_with_nocto);
  life.writers = GENERATE(1u, 2u);
  life.survivor = GENERATE(0u, 1u);
  return life;
}

}  // namespace

TEST_CASE("an emergency that is killed, or fails, at any step costs no snapshot", "[snapshot]") {
  auto life = generate_emergency();
  INFO("shared by " << static_cast<int>(life.how) << ", writers " << life.writers << ", rank "
                    << life.survivor << " is left");
  REQUIRE(life.after(mishap::none, 0) == "");
  REQUIRE(life.is_saved);
  const std::size_t steps = life.view_steps;
  REQUIRE(steps > 10);
  for (const auto what : {mishap::kill, mishap::one_error, mishap::errors}) {
    for (const std::uint64_t at : cases_to_take(steps, 8)) {
      INFO("mishap " << static_cast<int>(what) << " at step " << at << " of " << steps);
      REQUIRE(life.after(what, at) == "");
    }
  }
}

TEST_CASE("a power cut in an emergency costs no snapshot", "[snapshot]") {
  auto life = generate_emergency();
  INFO("shared by " << static_cast<int>(life.how) << ", writers " << life.writers << ", rank "
                    << life.survivor << " is left");
  REQUIRE(life.after(mishap::none, 0) == "");
  const std::size_t steps = life.disk_steps;
  REQUIRE(steps > 3);
  for (const std::uint64_t at : cases_to_take(steps, 8)) {
    INFO("cut at step " << at << " of " << steps);
    REQUIRE(life.after(mishap::power_cut, at) == "");
  }
}

// Rank 0 dies with the manifest in the folder, and perhaps not on the disk.
TEST_CASE("an emergency of a step whose save was under way is not lost with the power",
          "[snapshot]") {
  constexpr std::size_t steps = 40;  // more than rank 0 takes for a save
  std::size_t found_saved = 0;
  for (const std::uint64_t at : cases_to_take(steps, steps)) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      INFO("rank 0 fails from step " << at << " on, seed " << seed);
      two_ranks test(shared_by::one_disk, 1, seed);
      auto job = test.open(1);
      REQUIRE(two_ranks::is_open(job));
      REQUIRE(save(job, 10) == all(two_ranks::ranks));
      test.reported = 10;
      test.views[0].fail(test.views[0].steps() + at, ~std::size_t{0});
      (void)save(job, 20);
      job[0].job.reset();
      found_saved += test.disk.exists(std::string(two_ranks::folder) +
                                      "/snapshot-000001-000020/manifest.json");
      if (!job[1].job->save_emergency(20, 0, small_state(20).view(), patience)) test.reported = 20;
      CHECK(test.reported == 20);
      job.clear();
      test.restart_server();
      REQUIRE(test.check(2) == "");
    }
  }
  CHECK(found_saved != 0);
}

TEST_CASE("a disk that lies about an emergency's sync is caught by the checker", "[snapshot]") {
  emergency_life life;
  REQUIRE(life.after(mishap::none, 0) == "");
  std::string wrong;
  for (std::size_t at = 0; at <= life.disk_steps && wrong.empty(); ++at)
    wrong = life.after(mishap::power_cut, at, true);
  CHECK(wrong != "");
}

}  // namespace ddprun::tests
