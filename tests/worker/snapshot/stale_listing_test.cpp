// A machine whose NFS client shows an outdated listing of a snapshot's folder, in which a file of
// the snapshot is missing: that is no damage.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/two_ranks.hpp"
#include "worker/snapshot/reader.hpp"

#include <cerrno>
#include <memory>
#include <mutex>
#include <string>

namespace ddprun::tests {
namespace {

const std::string place = std::string(two_ranks::folder) + "/snapshot-000001-000020";
constexpr const char* of_rank_0 = "rank-00000.safetensors";

shared_by generate_nfs() {
  return GENERATE(shared_by::nfs, shared_by::nfs_with_nocto);
}

// With nocto the listing is that of another program on the machine, and stays in its cache. Without
// it is the next one that the job itself asks for.
void list_too_early(const two_ranks& test, nfs_client& machine) {
  machine.missed_by_listing = of_rank_0;
  if (!test.has_nocto) return;
  REQUIRE(machine.list(place).has_value());
  REQUIRE(machine.missed_by_listing.empty());
}

void list_too_early(two_ranks& test, std::size_t machine) {
  const std::lock_guard lock(test.mutex);
  list_too_early(test, *test.machines[machine]);
}

}  // namespace

TEST_CASE("an emergency of a step that all have saved leaves it whole on NFS", "[snapshot]") {
  two_ranks test(generate_nfs());
  constexpr round_number round = 1;
  {
    auto job = test.open(round);
    REQUIRE(two_ranks::is_open(job));
    for (const std::uint64_t step : {10, 20})
      REQUIRE(save(job, step) == all(two_ranks::ranks));
    list_too_early(test, (1 + round) % two_ranks::ranks);
    job[0].job.reset();
    CHECK_FALSE(job[1].job->save_emergency(20, 2, small_state(20).view(), patience));
  }
  auto job = test.open(2);
  REQUIRE(two_ranks::is_open(job));
  for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank) {
    const auto& found = job[rank].job->resumed();
    REQUIRE(found.has_value());
    CHECK(found->info.step == 20);
    CHECK_FALSE(found->info.is_emergency);
    CHECK(found->own.has_value());
    CHECK(small_state(20, rank).compare(*found) == "");
  }
}

TEST_CASE("a whole snapshot is not skipped for an outdated listing", "[snapshot]") {
  two_ranks test(generate_nfs());
  {
    auto job = test.open(1);
    REQUIRE(two_ranks::is_open(job));
    for (const std::uint64_t step : {10, 20})
      REQUIRE(save(job, step) == all(two_ranks::ranks));
  }
  constexpr round_number next = 2;
  list_too_early(test, next % two_ranks::ranks);  // rank 0's
  auto job = test.open(next);
  REQUIRE(two_ranks::is_open(job));
  CHECK(job[0].job->resumed()->info.step == 20);
  CHECK(test.messages.text() == "");
}

// It may have no right to, and is no part of the job.
TEST_CASE("a reader with an outdated listing waits for another, and writes nothing", "[snapshot]") {
  struct reading_machine : nfs_client {
    using nfs_client::nfs_client;
    result<std::unique_ptr<output_file>> create(const std::string&) override {
      ++creates;
      return system_error(EROFS);
    }
    int creates = 0;
  };
  const auto how = generate_nfs();
  two_ranks test(how);
  {
    auto job = test.open(1);
    REQUIRE(two_ranks::is_open(job));
    for (const std::uint64_t step : {10, 20})
      REQUIRE(save(job, step) == all(two_ranks::ranks));
  }
  const auto machine = std::make_unique<reading_machine>(test.server, test.has_nocto);
  list_too_early(test, *machine);
  reader_options options;
  options.files = machine.get();
  options.on_message = test.messages.handler();
  std::string problem;
  const auto found = read_newest_snapshot(two_ranks::folder, problem, options);
  INFO(problem);
  REQUIRE(found.has_value());
  REQUIRE(found->has_value());
  CHECK((*found)->info.step == 20);
  CHECK(machine->creates == 0);
  CHECK(test.messages.text() == "");
}

TEST_CASE("a file that is really gone is missed once the listing is anew", "[snapshot]") {
  two_ranks test(generate_nfs());
  {
    auto job = test.open(1);
    REQUIRE(two_ranks::is_open(job));
    for (const std::uint64_t step : {10, 20})
      REQUIRE(save(job, step) == all(two_ranks::ranks));
  }
  REQUIRE_FALSE(test.disk.remove(place + "/" + of_rank_0));
  test.start_machines();
  auto job = test.open(2);
  REQUIRE(two_ranks::is_open(job));
  CHECK(job[0].job->resumed()->info.step == 10);
  CHECK(
      test.messages.text().starts_with("snapshot " + place + " skipped: rank-00000.safetensors: "));
}

}  // namespace ddprun::tests
