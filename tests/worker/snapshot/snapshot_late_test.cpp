// Ranks that are late or gone at the worst moment.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <filesystem>
#include <future>
#include <mutex>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

error_code save_alone(const open_snapshots& to, std::uint64_t step) {
  if (auto error = to->save(step, 0, small_state(step).view())) return error;
  return to->wait();
}

open_snapshots open_alone(job_under_test& test, round_number round, file_system* files,
                          std::size_t keep = 1) {
  auto options = test.options();
  options.files = files;
  options.keep = keep;
  std::string problem;
  auto opened = snapshots::open(lone_rank(round), options, problem);
  return opened ? std::move(*opened) : nullptr;
}

}  // namespace

TEST_CASE("a rank that gives up before rank 0's word leaves its file", "[snapshot]") {
  job_under_test test;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  std::promise<void> is_writing, may_write;
  test.disk.before_create = [&](const std::string& path) {
    if (!path.ends_with("manifest.json.tmp")) return;
    is_writing.set_value();
    may_write.get_future().wait();
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK_FALSE(ranks[rank].job->save(10, 0, small_state(10, rank).view()));
  is_writing.get_future().wait();
  ranks[1].job.reset();  // as after an exception
  may_write.set_value();
  CHECK_FALSE(ranks[0].job->wait());
  ranks.clear();
  test.disk.before_create = nullptr;
  const auto next = test.open(2, 2);
  require_open(next);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE(next[rank].job->resumed().has_value());
    CHECK(small_state(10, rank).compare(*next[rank].job->resumed()) == "");
  }
}

TEST_CASE("an old round that is overtaken in its commit removes nothing", "[snapshot]") {
  job_under_test test;
  auto old_round = open_alone(test, 1, &test.disk);
  REQUIRE(old_round != nullptr);
  REQUIRE_FALSE(save_alone(old_round, 40));
  open_snapshots new_round;
  test.disk.before_rename = [&](const std::string&) {
    if (!new_round) new_round = open_alone(test, 2, &posix_file_system());
  };
  CHECK(save_alone(old_round, 50) == errc::refused);
  CHECK(old_round->is_over());
  CHECK(save_alone(old_round, 60) == errc::refused);
  REQUIRE(new_round != nullptr);
  REQUIRE(new_round->resumed().has_value());
  CHECK(new_round->resumed()->info.step == 40);
  old_round.reset();
  new_round.reset();
  const auto next = open_alone(test, 3, &posix_file_system());
  REQUIRE(next != nullptr);
  REQUIRE(next->resumed().has_value());
  CHECK(next->resumed()->info.step == 40);
}

TEST_CASE("a generation is drawn once, however long one sleeps before it", "[snapshot]") {
  job_under_test test;
  open_alone(test, 1, &posix_file_system());
  open_snapshots second, third;
  test.disk.before_create = [&](const std::string& path) {
    if (!path.ends_with("claim-000002") || second) return;
    second = open_alone(test, 2, &posix_file_system());
    REQUIRE_FALSE(save_alone(second, 60));
    third = open_alone(test, 3, &posix_file_system());  // removes the second one's claim
  };
  auto options = test.options();
  options.files = &test.disk;
  std::string problem;
  const auto sleeper = snapshots::open(lone_rank(1), options, problem);
  CHECK(sleeper.error() == errc::refused);
  CHECK(problem.find("round 3 has taken it over; this is round 1") != std::string::npos);
  CHECK(third->resumed()->info.step == 60);
  CHECK_FALSE(save_alone(third, 70));
}

TEST_CASE("what was said at one opening is no word on the next in the same round", "[snapshot]") {
  job_under_test test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(2));
    ranks.clear();
    ranks = test.open(1, 2);
    require_open(ranks);
    CHECK(save(ranks, 20) == all(2));
  }
  const auto ranks = test.open(1, 2);
  require_open(ranks);
  for (const auto& each : ranks) {
    REQUIRE(each.job->resumed().has_value());
    CHECK(each.job->resumed()->info.step == 20);
    CHECK(each.job->generation() == 3);
  }
}

// A membership change under torchrun: the same store, new ranks, and a node that restarts its
// count.
TEST_CASE("what was said before a membership change is no word on what comes after", "[snapshot]") {
  job_under_test test;
  test.instance = 0;
  std::uint64_t step = 0;
  for (const std::uint32_t world_size : {2u, 3u, 4u, 2u}) {
    std::vector<rank_result> ranks(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      ranks[rank] = test.open_rank(rank == 2 ? 1 : 4, rank, world_size, test.options());
    });
    require_open(ranks);
    for (const auto& each : ranks) {
      CHECK(each.job->generation() == ranks[0].job->generation());
      REQUIRE(each.job->resumed().has_value() == (step != 0));
      if (step != 0) CHECK(each.job->resumed()->info.step == step);
    }
    step += 10;
    CHECK(save(ranks, step) == all(world_size));
  }
}

TEST_CASE("a save that comes while one is being written waits for that", "[snapshot]") {
  job_under_test test;
  auto job = open_alone(test, 1, &test.disk, 3);
  REQUIRE(job != nullptr);
  std::mutex mutex;
  std::vector<std::string> order;
  const auto note = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    order.push_back(what.substr(test.folder.size() + 1));
  };
  std::promise<void> is_writing, may_write;
  test.disk.before_create = [&](const std::string& path) {
    note(path);
    if (!path.ends_with("000010/rank-00000.safetensors")) return;
    is_writing.set_value();
    may_write.get_future().wait();
  };
  test.disk.before_rename = note;
  CHECK_FALSE(job->save(10, 0, small_state(10).view()));
  is_writing.get_future().wait();  // save() has returned already
  std::promise<void> is_coming;
  auto second = std::async(std::launch::async, [&] {
    is_coming.set_value();
    return save_alone(job, 20);
  });
  is_coming.get_future().wait();
  may_write.set_value();
  CHECK_FALSE(second.get());
  CHECK(order == std::vector<std::string>{"snapshot-000001-000010/rank-00000.safetensors",
                                          "snapshot-000001-000010/manifest.json.tmp",
                                          "snapshot-000001-000010/manifest.json",
                                          "snapshot-000001-000020/rank-00000.safetensors",
                                          "snapshot-000001-000020/manifest.json.tmp",
                                          "snapshot-000001-000020/manifest.json"});
  // The second save has not overwritten the copy of the first.
  std::filesystem::remove_all(test.folder + "/snapshot-000001-000020");
  const auto next = open_alone(test, 2, &posix_file_system());
  REQUIRE(next != nullptr);
  REQUIRE(next->resumed().has_value());
  CHECK(small_state(10).compare(*next->resumed()) == "");
}

TEST_CASE("a tensor that cannot be fetched is a failure on all ranks", "[snapshot]") {
  job_under_test test;
  test.is_asynchronous = GENERATE(true, false);
  auto ranks = test.open(1, 2);
  require_open(ranks);
  std::vector<error_code> errors(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    const small_state whole(10, rank);
    auto state = whole.view();
    if (rank == 1) {
      state.own.tensors[0].copy = [](char*) {
        throw std::runtime_error("CUDA error: lost\nException raised from copy\nframe #0");
      };
    }
    errors[rank] = ranks[rank].job->save(10, 0, state);
    if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
  });
  CHECK(errors == all(2, errc::invalid_argument));
  for (const auto& each : ranks)
    CHECK(each.job->problem().ends_with("rank 1: cannot fetch the state: CUDA error: lost"));
  CHECK_FALSE(ranks[0].job->is_over());
  CHECK(save(ranks, 20) == all(2));
}

}  // namespace ddprun::tests
