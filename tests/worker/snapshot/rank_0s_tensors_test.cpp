// Replicated tensors that are rank 0's: those that may differ between ranks, and those that only
// rank 0 has.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/names.hpp"
#include "worker/snapshot/shares.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// The state of a rank, in which only rank 0 has "plan"; `bytes` must outlive it.
snapshot_state state_with_plan(const small_state& of, std::uint32_t rank,
                               const std::string& bytes) {
  auto state = of.view();
  if (rank != 0) return state;
  // First, where other ranks have another tensor.
  state.replicated.tensors.insert(state.replicated.tensors.begin(), bytes_tensor("plan", bytes));
  state.replicated.tensors.front().is_rank_0s = true;
  return state;
}

// A disk on which the files of ranks stay empty.
class sink final : public hooked_disk {
 public:
  result<std::unique_ptr<worker::output_file>> create(const std::string& path) override {
    auto file = hooked_disk::create(path);
    if (!file || !path.ends_with(".safetensors")) return file;
    return std::unique_ptr<worker::output_file>(std::make_unique<output>(std::move(*file)));
  }

 private:
  struct output final : worker::output_file {
    explicit output(std::unique_ptr<worker::output_file> to) : file(std::move(to)) {}
    error_code write(std::string_view) override { return {}; }
    error_code finish() override { return file->finish(); }
    std::unique_ptr<worker::output_file> file;
  };
};

}  // namespace

TEST_CASE("of tensors that differ between the ranks a snapshot has rank 0's", "[snapshot]") {
  constexpr std::uint32_t world_size = 3;
  constexpr std::size_t buffers = 6;
  const auto name_of = [](std::size_t buffer) { return "buffer" + std::to_string(buffer); };
  job_under_test test;
  test.writers = GENERATE(1u, 2u, 3u);
  test.is_asynchronous = GENERATE(true, false);
  const bool is_late = GENERATE(true, false);
  {
    auto ranks = test.open(1, world_size);
    require_open(ranks);
    std::vector<error_code> errors(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      const small_state kept(10, rank);
      const std::string here = "of rank " + std::to_string(rank);
      auto state = kept.view();
      for (std::size_t at = 0; at < buffers; ++at) {
        state.replicated.tensors.push_back(bytes_tensor(name_of(at), here));
        state.replicated.tensors.back().is_rank_0s = true;
      }
      auto& job = *ranks[rank].job;
      errors[rank] = is_late ? job.begin_save(10, 0, state) : job.save(10, 0, state);
      if (!errors[rank]) errors[rank] = job.wait();
    });
    CHECK(errors == all(world_size));
  }
  const auto next = test.open(2, world_size);
  require_open(next);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const auto& found = *next[rank].job->resumed();
    CHECK(small_state(10, rank).compare(found) == "");
    for (std::size_t at = 0; at < buffers; ++at) {
      const auto* const buffer = found.replicated.find(name_of(at));
      REQUIRE(buffer != nullptr);
      CHECK(buffer->bytes == "of rank 0");
    }
  }
}

TEST_CASE("what only rank 0 has it writes, and all ranks resume with it", "[snapshot]") {
  constexpr std::uint32_t world_size = 3;
  const std::string plan(1000, 'p');
  job_under_test test;
  test.writers = GENERATE(0u, 1u, 2u, 3u);
  test.is_asynchronous = GENERATE(true, false);
  {
    auto ranks = test.open(1, world_size);
    require_open(ranks);
    std::vector<error_code> errors(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      const small_state kept(10, rank);
      errors[rank] = ranks[rank].job->save(10, 0, state_with_plan(kept, rank, plan));
      if (!errors[rank]) errors[rank] = ranks[rank].job->wait();
    });
    CHECK(errors == all(world_size));
  }
  const auto next = test.open(2, world_size);
  require_open(next);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const auto& found = *next[rank].job->resumed();
    CHECK(small_state(10, rank).compare(found) == "");
    const auto* const tensor = found.replicated.find("plan");
    REQUIRE(tensor != nullptr);
    CHECK(tensor->bytes == plan);
  }
  CHECK(test.messages.text() == "");
}

// Other ranks do not know of its length, and would not come to the same number of writers.
TEST_CASE("what only rank 0 has it writes, however long it is", "[snapshot]") {
  constexpr std::uint32_t world_size = 2;
  const std::string plan(2 * share_bytes_min, 'p');
  job_under_test test;
  test.is_asynchronous = false;
  sink disk;
  std::vector<error_code> errors(world_size);
  std::vector<std::string> problems(world_size);
  job_under_test::on_all(world_size, [&](std::uint32_t rank) {
    auto options = test.options();
    options.files = &disk;
    const auto opened = test.open_rank(1, rank, world_size, options);
    problems[rank] = opened.problem;
    if (!opened.job) return;
    const small_state kept(10, rank);
    errors[rank] = opened.job->save(10, 0, state_with_plan(kept, rank, plan));
  });
  CHECK(problems == std::vector<std::string>(world_size));
  CHECK(errors == all(world_size));
  CHECK(test.messages.text() == "");
  const std::string place = test.folder + "/snapshot-000001-000010/";
  CHECK(std::filesystem::exists(place + std::string(manifest_name)));
  CHECK(!std::filesystem::exists(place + std::string(index_name)));
}

TEST_CASE("survivors need not have what is rank 0's", "[snapshot]") {
  constexpr std::uint32_t world_size = 3;
  const std::string plan(1000, 'p');
  const std::uint32_t dead = GENERATE(0u, 1u);
  job_under_test test;
  {
    auto ranks = test.open(1, world_size);
    require_open(ranks);
    ranks[dead].job.reset();
    std::vector<error_code> errors(world_size);
    job_under_test::on_all(world_size, [&](std::uint32_t rank) {
      if (rank == dead) return;
      const small_state kept(10);
      errors[rank] =
          ranks[rank].job->save_emergency(10, 0, state_with_plan(kept, rank, plan), patience);
    });
    CHECK(errors == all(world_size));
  }
  const auto next = test.open(2, world_size);
  require_open(next);
  for (const auto& each : next) {
    const auto& found = *each.job->resumed();
    CHECK(small_state(10).compare(found) == "");
    CHECK((found.replicated.find("plan") != nullptr) == (dead != 0));
  }
}

}  // namespace ddprun::tests
