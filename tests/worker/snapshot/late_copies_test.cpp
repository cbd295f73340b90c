// Tensors that are copied beside what the program does next.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/folder_under_test.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// A state whose optimizer is copied once `let_go` is called.
struct slow_state {
  explicit slow_state(std::uint64_t step, std::uint32_t rank = 0)
      : all(step, rank), model(all.model()), view(all.view()) {
    auto& early = view.replicated.tensors[0];
    early = bytes_tensor("model", model);
    auto& late = view.replicated.tensors[1];
    optimizer = late.bytes;
    late.bytes = {};
    late.may_be_late = true;
    late.copy = [this](char* to) {
      may_go.get_future().wait();
      optimizer.copy(to, optimizer.size());
    };
  }
  void let_go() { may_go.set_value(); }
  // As training does it.
  void change_what_is_early() { model.assign(model.size(), 'z'); }
  void change_what_is_late() { optimizer.assign(optimizer.size(), 'z'); }

  small_state all;
  std::string model;
  std::string optimizer;
  snapshot_state view;
  std::promise<void> may_go;
};

// A round whose ranks have saved step 10.
std::vector<rank_result> open_with_step_10(job_under_test& test, std::uint32_t world_size) {
  auto ranks = test.open(1, world_size);
  require_open(ranks);
  REQUIRE(save(ranks, 10) == all(world_size));
  return ranks;
}

// Two ranks save step 20, as `save_late` has it of a rank. There is no such snapshot, for that
// reason, and the next one is saved.
template <typename SaveLate>
void check_that_it_is_lost(SaveLate save_late, const std::string& reason) {
  job_under_test test;
  auto ranks = open_with_step_10(test, 2);
  std::vector<error_code> errors(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    save_late(rank, *ranks[rank].job);
    errors[rank] = ranks[rank].job->wait();
  });
  CHECK(errors == all(2, errc::invalid_argument));
  const std::string path = test.folder + "/snapshot-000001-000020";
  for (const auto& each : ranks)
    CHECK(each.job->problem() == "cannot save snapshot " + path + ": " + reason);
  CHECK(!std::filesystem::exists(path));
  CHECK(save(ranks, 30) == all(2));
}

}  // namespace

TEST_CASE("what may be late is copied while the program goes on", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  slow_state state(10);
  CHECK_FALSE(kept->begin_save(10, 1, state.view));
  state.change_what_is_early();
  state.let_go();
  kept->wait_until_copied();
  state.change_what_is_late();
  CHECK_FALSE(kept->wait());
  CHECK(test.next_step() == 10);
}

TEST_CASE("bytes that may be late are all copied once that was waited for", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  for (const std::uint64_t step : {10u, 20u, 30u}) {
    const small_state all(step);
    std::string model = all.model();
    auto state = all.view();
    state.replicated.tensors[0] = bytes_tensor("model", model);
    state.replicated.tensors[0].may_be_late = true;
    CHECK_FALSE(kept->begin_save(step, 1, state));
    kept->wait_until_copied();
    model.assign(model.size(), 'z');
    CHECK_FALSE(kept->wait());
    CHECK(test.next_step() == step);
    kept = test.open(step);
  }
}

TEST_CASE("a program that does not ask for it has all copied by save()", "[snapshot]") {
  const bool is_asynchronous = GENERATE(true, false);
  folder_under_test test;
  test.is_asynchronous = is_asynchronous;
  auto kept = test.open(1);
  slow_state state(10);
  state.let_go();
  // Without a thread that writes there is none that copies.
  const auto error =
      is_asynchronous ? kept->save(10, 1, state.view) : kept->begin_save(10, 1, state.view);
  CHECK_FALSE(error);
  state.change_what_is_early();
  state.change_what_is_late();
  CHECK_FALSE(kept->wait());
  CHECK(test.next_step() == 10);
}

TEST_CASE("a late copy that fails is the save's failure, on all ranks", "[snapshot]") {
  check_that_it_is_lost(
      [](std::uint32_t rank, snapshots& job) {
        const small_state all(20, rank);
        auto state = all.view();
        state.replicated.tensors[1].may_be_late = true;
        if (rank == 0) {
          state.replicated.tensors[1].copy = [](char*) {
            throw std::runtime_error("no such device\nException raised from copy\nframe #0");
          };
        }
        (void)job.begin_save(20, 0, state);
        job.wait_until_copied();
      },
      "rank 0: cannot fetch the state: no such device");
}

TEST_CASE("a late copy that has changed becomes no snapshot, on any rank", "[snapshot]") {
  const std::uint32_t changed_on = GENERATE(0u, 1u);
  check_that_it_is_lost(
      [changed_on](std::uint32_t rank, snapshots& job) {
        slow_state state(20, rank);
        state.let_go();
        (void)job.begin_save(20, 0, state.view);
        job.wait_until_copied([&] { return rank == changed_on ? std::string("'weight'") : ""; });
      },
      "rank " + std::to_string(changed_on) + ": 'weight' has changed while it was copied");
}

TEST_CASE("a late copy that cannot be looked at becomes no snapshot, on any rank", "[snapshot]") {
  std::string thrown[2];
  check_that_it_is_lost(
      [&](std::uint32_t rank, snapshots& job) {
        slow_state state(20, rank);
        state.let_go();
        (void)job.begin_save(20, 0, state.view);
        try {
          job.wait_until_copied([&]() -> std::string {
            if (rank == 1) throw std::runtime_error("no such tensor");
            return "";
          });
        } catch (const std::runtime_error& error) {
          thrown[rank] = error.what();
        }
        job.wait_until_copied();  // no second word counts
      },
      "rank 1: cannot look whether the copy is whole: no such tensor");
  CHECK((thrown[0] == "" && thrown[1] == "no such tensor"));
}

TEST_CASE("a late copy is no snapshot before the program's word", "[snapshot]") {
  const auto word = GENERATE(std::string("none"), std::string("emergency"), std::string("copied"),
                             std::string("wait"), std::string("is saved"), std::string("close"),
                             std::string("next save"));
  job_under_test test;
  auto ranks = open_with_step_10(test, 1);
  const auto is_written = test.disk.when_synced("/snapshot-000001-000020");
  slow_state state(20);
  auto& job = *ranks[0].job;
  CHECK_FALSE(job.begin_save(20, 0, state.view));
  state.let_go();
  is_written.wait();
  CHECK(job.saved() == test.folder + "/snapshot-000001-000010");
  std::uint64_t expected = 20;
  if (word == "none") expected = 10;
  if (word == "emergency") {
    expected = 25;
    CHECK_FALSE(job.save_emergency(25, 0, small_state(25).view(), patience));
    CHECK(!std::filesystem::exists(test.folder + "/snapshot-000001-000020"));
  }
  if (word == "copied") job.wait_until_copied();
  if (word == "copied" || word == "wait") CHECK_FALSE(job.wait());
  if (word == "is saved") CHECK(job.is_saved(patience));
  if (word == "close") CHECK_FALSE(job.close());
  if (word == "next save") {
    CHECK(save(ranks, 30) == all(1));
    CHECK(std::filesystem::exists(test.folder + "/snapshot-000001-000020/manifest.json"));
    expected = 30;
  }
  ranks.clear();
  test.disk.before_sync = nullptr;
  ranks = test.open(2, 1);
  require_open(ranks);
  CHECK(ranks[0].job->resumed()->info.step == expected);
}

TEST_CASE("a late copy waits for no other rank", "[snapshot]") {
  job_under_test test;
  auto ranks = open_with_step_10(test, 2);
  ranks[1].job.reset();
  slow_state state(20);
  CHECK_FALSE(ranks[0].job->begin_save(20, 1, state.view));
  CHECK(!ranks[0].job->is_saved(std::chrono::milliseconds::zero()));
  state.let_go();
  ranks[0].job->wait_until_copied();
  state.change_what_is_late();
  ranks[0].job.reset();  // which gives up
  ranks = test.open(2, 2);
  require_open(ranks);
  CHECK(ranks[0].job->resumed()->info.step == 10);
}

// Until the emergency gives up what is under way, or after that: either may come first.
TEST_CASE("an emergency snapshot ends a late copy and has its own", "[snapshot]") {
  job_under_test test;
  auto ranks = open_with_step_10(test, 3);
  ranks[2].job.reset();
  slow_state states[] = {slow_state(20, 0), slow_state(20, 1)};
  std::vector<error_code> errors(2);
  test.on_all(2, [&](std::uint32_t rank) {
    auto& job = *ranks[rank].job;
    (void)job.begin_save(20, 0, states[rank].view);
    std::thread copying([&] { states[rank].let_go(); });
    errors[rank] = job.save_emergency(21, 0, small_state(21, rank).view(), patience);
    copying.join();
  });
  CHECK(errors == all(2));
  ranks = test.open(2, 3);
  require_open(ranks);
  for (const auto& each : ranks) {
    REQUIRE(each.job->resumed());
    CHECK(small_state(21).compare(*each.job->resumed()) == "");
  }
}

TEST_CASE("a job that ends while something is copied late lets go of it", "[snapshot]") {
  folder_under_test test;
  auto kept = test.open(1);
  CHECK_FALSE(save(kept, 10));
  slow_state state(20);
  CHECK_FALSE(kept->begin_save(20, 1, state.view));
  state.let_go();
  kept.reset();
  state.change_what_is_late();
  const auto step = test.next_step();
  CHECK((step == 10 || step == 20));
}

}  // namespace ddprun::tests
