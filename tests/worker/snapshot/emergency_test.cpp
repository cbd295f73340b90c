// What is left when ranks have died: the others save the last finished step.
#include "launcher/agent/stop_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <thread>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

struct finished_step {
  std::uint64_t step;
  std::uint64_t state;  // is that of this step
  std::uint64_t epoch = 2;
  std::string kept = "text";  // a value
};

// After a save of step 10 some ranks are dead, and the others call for an emergency.
struct job_with_dead_ranks : job_under_test {
  static constexpr std::uint32_t world_size = 4;
  std::vector<rank_result> ranks;
  std::set<std::uint32_t> dead;

  explicit job_with_dead_ranks(std::set<std::uint32_t> gone, std::uint32_t writers_wanted = 0)
      : dead(std::move(gone)) {
    writers = writers_wanted;
    ranks = open(1, world_size);
    require_open(ranks);
    REQUIRE(save(ranks, 10) == all(world_size));
    for (const auto rank : dead)
      ranks[rank].job.reset();
  }
  // Of the ranks that are left: what `finished_by` says of each.
  template <typename Finished>
  std::vector<error_code> save_rest(Finished finished_by,
                                    const snapshots::name_choice& compared = {}) {
    std::vector<std::optional<error_code>> errors(world_size);
    on_all(world_size, [&](std::uint32_t rank) {
      if (dead.contains(rank)) return;
      const finished_step mine = finished_by(rank);
      const small_state all(mine.state);
      auto state = all.view();
      state.replicated.values["kept"] = mine.kept;
      errors[rank] =
          ranks[rank].job->save_emergency(mine.step, mine.epoch, state, patience, compared);
    });
    std::vector<error_code> said;
    for (const auto& each : errors) {
      if (each) said.push_back(*each);
    }
    return said;
  }
  // What the next round goes on from, which all its ranks do alike.
  snapshot_info next(std::uint64_t state) {
    ranks = open(2, world_size);
    require_open(ranks);
    for (const auto& each : ranks) {
      REQUIRE(each.job->resumed().has_value());
      CHECK(each.job->resumed()->info == ranks[0].job->resumed()->info);
      CHECK(each.job->resumed()->own.has_value() == !each.job->resumed()->info.is_emergency);
      CHECK(small_state(state).model() == each.job->resumed()->replicated.find("model")->bytes);
    }
    CHECK(save(ranks, 100) == all(world_size));
    return ranks[0].job->resumed()->info;
  }
};

finished_step step_17(std::uint32_t) {
  return {17, 17};
}

}  // namespace

TEST_CASE("the ranks that are left save the last finished step", "[snapshot]") {
  const auto dead = GENERATE(std::set<std::uint32_t>{1}, std::set<std::uint32_t>{0});
  job_with_dead_ranks test(dead);
  CHECK(test.save_rest(step_17) == all(3));
  const std::string path = test.folder + "/snapshot-000001-000017";
  CHECK(test.messages.last() == "snapshot " + path + " was saved by the ranks that are left (" +
                                    (dead.contains(0) ? "ranks 1 to 3)" : "ranks 0, 2 and 3)"));
  const auto info = test.next(17);
  CHECK(info.step == 17);
  CHECK(info.is_emergency);
  CHECK(test.messages.last() == "snapshot " + path +
                                    " was saved by the ranks that were left when others had died: "
                                    "what is each rank's own is not in it");
}

TEST_CASE("a save that waits for a dead rank is given up for an emergency", "[snapshot]") {
  job_with_dead_ranks test({1});
  for (const std::uint32_t rank : {0u, 2u, 3u})
    CHECK_FALSE(test.ranks[rank].job->save(15, 0, small_state(15, rank).view()));
  CHECK(test.save_rest(step_17) == all(3));
  CHECK(test.next(17).step == 17);
}

// Of the given up one each survivor had written a share, and rank 0 the index.
TEST_CASE("an emergency of a step whose shares are not all there leaves no index", "[snapshot]") {
  job_with_dead_ranks test({1}, 4);
  CHECK(std::filesystem::exists(test.folder +
                                "/snapshot-000001-000010/model.safetensors.index.json"));
  for (const std::uint32_t rank : {0u, 2u, 3u})
    CHECK_FALSE(test.ranks[rank].job->save(17, 0, small_state(17, rank).view()));
  CHECK(test.save_rest(step_17) == all(3));
  CHECK(!std::filesystem::exists(test.folder +
                                 "/snapshot-000001-000017/model.safetensors.index.json"));
  CHECK(test.next(17).is_emergency);
}

TEST_CASE("the greatest finished step is saved", "[snapshot]") {
  job_with_dead_ranks test({1});
  const auto finished_by = [](std::uint32_t rank) {
    const std::uint64_t step = rank == 2 ? 18 : 17;
    return finished_step{step, step};
  };
  CHECK(test.save_rest(finished_by) == all(3));
  CHECK(test.next(18).step == 18);
}

// The abort of a rank on a GPU has ended step 18 of rank 2, with wrong values.
TEST_CASE("a step in which a rank has aborted its collectives is not saved", "[snapshot]") {
  const std::uint32_t first = GENERATE(0u, 3u);
  job_with_dead_ranks test({1});
  CHECK(test.ranks[first].job->abort_teller()(18) == "");
  CHECK(test.ranks[2].job->abort_teller()(19) == "");
  const auto finished_by = [](std::uint32_t rank) {
    return rank == 2 ? finished_step{18, 118} : finished_step{17, 17};
  };
  CHECK(test.save_rest(finished_by) == all(3));
  CHECK(test.next(17).step == 17);
}

TEST_CASE("a rank that still aborts is waited for if only it can save", "[snapshot]") {
  job_with_dead_ranks test({1, 3});
  CHECK(test.ranks[0].job->abort_teller()(18) == "");
  const auto finished_by = [](std::uint32_t rank) {
    if (rank == 2) return finished_step{18, 118};
    // Longer than ranks wait for others that have said nothing: rank 2 would have settled it.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return finished_step{17, 17};
  };
  CHECK(test.save_rest(finished_by) == all(2));
  CHECK(test.next(17).step == 17);
}

TEST_CASE("an abort after the step was settled changes nothing", "[snapshot]") {
  job_with_dead_ranks test({1, 3});
  CHECK_FALSE(test.ranks[2].job->save_emergency(18, 2, small_state(18).view(), patience));
  CHECK(test.ranks[0].job->abort_teller()(18) == "");
  CHECK_FALSE(test.ranks[0].job->save_emergency(17, 2, small_state(17).view(), patience));
  CHECK(test.next(18).step == 18);
}

// Rank 0 has died before it could say what it has finished.
TEST_CASE("where no rank is left before the step of an abort, nothing is saved", "[snapshot]") {
  job_with_dead_ranks test({1});
  std::chrono::milliseconds grace = std::chrono::seconds(1);
  const auto try_within = [&](std::chrono::milliseconds limit) {
    CHECK(test.ranks[0].job->abort_teller()(18) == "");
    std::vector<error_code> errors(2);
    test.on_all(2, [&](std::uint32_t index) {
      errors[index] =
          test.ranks[index + 2].job->save_emergency(18, 2, small_state(118).view(), limit);
    });
    return errors;
  };
  auto errors = try_within(grace);
  // Where this machine is slow, the time may not be enough.
  while (errors != all(2, errc::damaged) && (grace *= 4) < patience) {
    test.ranks = test.open(2, 4);
    require_open(test.ranks);
    errors = try_within(grace);
  }
  CHECK(errors == all(2, errc::damaged));
  const std::string why =
      ": rank 0 has aborted its collectives in step 18, which may have ended that step on the "
      "other GPUs with wrong values; and of the ranks that are left (ranks 2 and 3) none has "
      "stayed before step 18";
  for (const std::uint32_t rank : {2u, 3u})
    CHECK(test.ranks[rank].job->problem().ends_with(why));
  CHECK(test.messages.last().ends_with(why));
}

// The step is the last one of an epoch, and one of the ranks has heard that all have come to the
// epoch's end. What the others have is of the same step, and is not the same.
TEST_CASE("of the greatest finished step, the one that has ended its epoch is saved",
          "[snapshot]") {
  const std::uint32_t ahead = GENERATE(0u, 3u);
  job_with_dead_ranks test({1});
  const auto finished_by = [&](std::uint32_t rank) {
    if (rank == ahead) return finished_step{17, 17, 3, "after the epoch's end"};
    return finished_step{17, 16, 2, "before it"};
  };
  CHECK(test.save_rest(finished_by) == all(3));
  CHECK(test.next(17).epoch == 3);
}

TEST_CASE("survivors that differ save nothing, and the last whole one stays", "[snapshot]") {
  job_with_dead_ranks test({1});
  const auto differs = GENERATE(std::string("states"), std::string("values"));
  const auto finished_by = [&](std::uint32_t rank) {
    finished_step mine{17, 17};
    if (rank == 2 && differs == "states") mine.state = 117;
    if (rank == 2 && differs == "values") mine.kept = "another text";
    return mine;
  };
  const bool is_compared = GENERATE(true, false);
  const auto compared = [&](std::string_view name) {
    return is_compared ||
           (name != "model" && name != "optimizer" && name != "step" && name != "kept");
  };
  if (!is_compared) {
    CHECK(test.save_rest(finished_by, compared) == all(3));
    CHECK(test.next(17).step == 17);
    return;
  }
  CHECK(test.save_rest(finished_by, compared) == all(3, errc::damaged));
  CHECK(test.ranks[3].job->problem() ==
        "cannot save the emergency snapshot " + test.folder +
            "/snapshot-000001-000017: rank 0 and rank 2 have different " +
            (differs == "values" ? "values (learning rates, kept texts)" : differs) +
            " after step 17");
  const auto info = test.next(10);
  CHECK(info.step == 10);
  CHECK(!info.is_emergency);
}

TEST_CASE("a commit and an emergency of the same step do not spoil each other", "[snapshot]") {
  const bool is_rank_0_first = GENERATE(true, false);
  job_with_dead_ranks test({});
  std::promise<void> commits, may_commit, has_committed;
  auto commit_begins = commits.get_future();
  auto go = may_commit.get_future();
  auto commit_is_over = has_committed.get_future();
  std::atomic<int> calls{0};
  test.disk.before_rename = [&](const std::string&) {
    const int call = ++calls;
    if (call == 1) {  // rank 0, which was cut off, and is taken for dead
      commits.set_value();
      go.wait();
    } else if (is_rank_0_first) {
      may_commit.set_value();
      commit_is_over.wait();
    }
  };
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    CHECK_FALSE(test.ranks[rank].job->save(17, 2, small_state(17, rank).view()));
  commit_begins.wait();
  error_code of_rank_0;
  std::thread late([&] {
    of_rank_0 = test.ranks[0].job->wait();
    has_committed.set_value();
  });
  test.dead = {0};
  CHECK(test.save_rest(step_17) == all(3));
  if (!is_rank_0_first) may_commit.set_value();
  late.join();
  CHECK(of_rank_0 == (is_rank_0_first ? error_code() : make_error_code(errc::refused)));
  test.disk.before_rename = nullptr;
  test.ranks.clear();
  const auto info = test.next(17);
  CHECK(info.step == 17);
  CHECK(info.is_emergency == !is_rank_0_first);
}

// ddprun kills a worker that is not writing once its time is over, without a word.
TEST_CASE("survivors that are killed before their checksums are there say what to do",
          "[snapshot]") {
  const bool has_time = GENERATE(false, true);
  launcher::stop_file file;
  file.stop(false, has_time ? patience : std::chrono::milliseconds(0));
  ::setenv("DDPRUN_STOP", file.path().c_str(), 1);
  job_with_dead_ranks test({1});
  const auto errors = test.save_rest(step_17);
  ::unsetenv("DDPRUN_STOP");
  if (has_time) {
    CHECK(errors == all(3));
    return;
  }
  CHECK(errors == all(3, errc::timed_out));
  const auto said = test.messages.all();
  CHECK(std::count(said.begin(), said.end(),
                   "cannot save the emergency snapshot " + test.folder +
                       "/snapshot-000001-000017: its checksum takes too long for the time that is "
                       "left: give more with emergency_grace, and with ddprun's --rdzv-conf "
                       "stop_grace=") == 1);
}

TEST_CASE("a disk that does not answer costs an emergency half of its time", "[snapshot]") {
  job_with_dead_ranks test({1});
  std::promise<void> answers;
  const auto answer = answers.get_future().share();
  test.disk.before_create = [answer](const std::string&) { answer.wait(); };
  CHECK_FALSE(test.ranks[0].job->save(15, 0, small_state(15, 0).view()));
  auto& rank = *test.ranks[0].job;
  CHECK(rank.save_emergency(17, 2, small_state(17).view(), std::chrono::milliseconds(200)) ==
        errc::timed_out);
  CHECK(rank.is_over());
  CHECK(rank.problem() == "cannot save an emergency snapshot: the save under way in " +
                              test.folder + " does not end, for the disk does not answer");
  answers.set_value();
}

}  // namespace ddprun::tests
