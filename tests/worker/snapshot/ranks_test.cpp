// Several ranks, each on a thread with its own connection to one store, and one folder. Their
// results are checked after they have ended, because Catch2 must be used on the test's own thread.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/names.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

}  // namespace

TEST_CASE("all ranks go on from the same snapshot, each with its own part", "[snapshot]") {
  job_under_test test;
  test.is_asynchronous = GENERATE(true, false);
  auto ranks = test.open(1, 3);
  require_open(ranks);
  for (const auto& each : ranks)
    CHECK(!each.job->resumed());
  CHECK(save(ranks, 10) == all(3));
  CHECK(save(ranks, 20) == all(3));
  for (const auto& each : ranks)
    CHECK(each.job->saved() == test.folder + "/snapshot-000001-000020");
  const auto next = test.open(2, 3);
  require_open(next);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto& found = next[rank].job->resumed();
    REQUIRE(found.has_value());
    CHECK(found->info.step == 20);
    CHECK(found->world_size == 3);
    REQUIRE(found->own.has_value());
    CHECK(small_state(20, rank).compare(*found) == "");
  }
  CHECK(test.messages.text() == "");
}

TEST_CASE("no rank goes on from a snapshot before that is noted", "[snapshot]") {
  job_under_test test;
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    CHECK_FALSE(ranks[0].job->progress(10));
    CHECK(save(ranks, 10) == all(2));
  }
  // Otherwise a rank that crashes at once would end the job before that.
  auto client = client_of(test.store);
  const std::string verdict = "ddprun/snapshots/77/2/1/verdict/0/announced";
  const auto is_told = [&] { return *client.check(std::span(&verdict, 1), patience); };
  std::optional<bool> told_before;
  test.disk.before_create = [&](const std::string& path) {
    if (path.ends_with("/resumed-000002")) told_before = is_told();
  };
  require_open(test.open(2, 2));
  CHECK(told_before == std::optional(false));
  CHECK(is_told());
}

TEST_CASE("another number of ranks gets what all have alike", "[snapshot]") {
  job_under_test test;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(2));
  for (const std::uint32_t world_size : {1u, 3u}) {
    const auto next = test.open(1 + world_size, world_size);
    require_open(next);
    for (const auto& each : next) {
      const auto& found = each.job->resumed();
      REQUIRE(found.has_value());
      CHECK(found->world_size == 2);
      CHECK(!found->own);
      CHECK(small_state(10).compare(*found) == "");
    }
  }
}

// If one rank read the files of all others, all of them would wait for it.
TEST_CASE("the ranks look at their files side by side", "[snapshot]") {
  job_under_test test;
  std::mutex mutex;
  std::map<std::thread::id, std::set<std::string>> looks;  // files of ranks other than the first
  test.disk.before_look = [&](const std::string& path) {
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::lock_guard lock(mutex);
    if (name.starts_with("rank-") && name != rank_file_name(0)) {
      looks[std::this_thread::get_id()].insert(name);
    }
  };
  const auto most = [&] {
    std::size_t count = 0;
    std::set<std::string> names;
    for (const auto& [thread, files] : looks) {
      count = std::max(count, files.size());
      names.insert(files.begin(), files.end());
    }
    looks.clear();
    return std::pair(count, names.size());
  };
  auto ranks = test.open(1, 8);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(8));
  CHECK(most() == std::pair(std::size_t{0}, std::size_t{0}));
  ranks = test.open(2, 8);
  require_open(ranks);
  CHECK(most() == std::pair(std::size_t{1}, std::size_t{7}));
  // With fewer ranks each of them checks a share.
  ranks = test.open(3, 4);
  require_open(ranks);
  CHECK(most() == std::pair(std::size_t{2}, std::size_t{7}));
}

TEST_CASE("what one rank finds damaged none of them takes", "[snapshot]") {
  job_under_test test;
  {
    auto ranks = test.open(1, 3);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(3));
    CHECK(save(ranks, 20) == all(3));
  }
  const std::string path = test.folder + "/snapshot-000001-000020/rank-00002.safetensors";
  std::fstream file(path, std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('!');
  file.close();
  const auto next = test.open(2, 3);
  require_open(next);
  for (const auto& each : next)
    CHECK(each.job->resumed()->info.step == 10);
  CHECK(test.messages.all() ==
        std::vector<std::string>{"snapshot " + test.folder +
                                 "/snapshot-000001-000020 skipped: rank 2: rank-00002.safetensors: "
                                 "its bytes do not match their checksum"});
}

TEST_CASE("a rank's full disk costs the new snapshot on all ranks, and no old one", "[snapshot]") {
  job_under_test test;
  auto ranks = test.open(1, 3);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(3));
  test.disk.refuses_to_create = "rank-00001.safetensors";
  test.disk.fails_with = ENOSPC;
  const error_code full = system_error(ENOSPC);
  CHECK(save(ranks, 20) == all(3, full));
  const std::string problem = "cannot save snapshot " + test.folder +
                              "/snapshot-000001-000020: rank 1: cannot write "
                              "rank-00001.safetensors (";
  for (const auto& each : ranks)
    CHECK(each.job->problem().starts_with(problem));
  REQUIRE(test.messages.all().size() == 1);
  CHECK(test.messages.last() == ranks[2].job->problem());
  CHECK(!std::filesystem::exists(test.folder + "/snapshot-000001-000020"));
  test.disk.fails_with = 0;
  CHECK(save(ranks, 30) == all(3));
  ranks.clear();
  const auto next = test.open(2, 3);
  require_open(next);
  for (const auto& each : next)
    CHECK(each.job->resumed()->info.step == 30);
}

TEST_CASE("a failure comes with the next step", "[snapshot]") {
  job_under_test test;
  auto ranks = test.open(1, 2);
  require_open(ranks);
  test.disk.refuses_to_create = "rank-00001.safetensors";
  test.disk.fails_with = EDQUOT;
  std::vector<error_code> said(2), later(2), closed(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    auto& job = *ranks[rank].job;
    if (job.save(10, 0, small_state(10, rank).view())) return;
    std::uint64_t step = 10;
    const deadline until = patience;
    while (!said[rank] && !until.passed())
      said[rank] = job.progress(++step);
    later[rank] = job.progress(++step);
    closed[rank] = job.close();
  });
  CHECK(said == all(2, system_error(EDQUOT)));
  CHECK(later == all(2));
  CHECK(closed == all(2));
}

TEST_CASE("a folder that is not shared is named", "[snapshot]") {
  job_under_test test;
  std::vector<rank_result> ranks(2);
  const auto open = [&](round_number round) {
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      auto options = test.options();
      if (rank == 1) options.folder = test.place.path + "/another";
      ranks[rank] = test.open_rank(round, rank, 2, options);
    });
  };
  open(1);
  require_open(ranks);
  // The folder does not exist on the other node.
  CHECK(save(ranks, 10) == all(2, system_error(ENOENT)));
  CHECK(ranks[0].job->problem().find("rank 1: cannot make the folder") != std::string::npos);
  // It exists there, but is a different folder.
  std::filesystem::create_directory(test.place.path + "/another");
  CHECK(save(ranks, 20) == all(2, errc::damaged));
  CHECK(
      ranks[1].job->problem() ==
      "cannot save snapshot " + test.folder +
          "/snapshot-000001-000020: rank-00001.safetensors: No such file or directory (the folder "
          "must be one that all nodes share, on NFS mounted with lookupcache=positive)");
  ranks = test.open(2, 2);
  CHECK(save(ranks, 30) == all(2));
  ranks.clear();
  ranks.resize(2);
  open(3);
  for (const auto& each : ranks) {
    CHECK(each.error == errc::not_found);
    CHECK(each.problem.find("snapshot-000002-000030/manifest.json: No such file or directory; the "
                            "folder must be one that all nodes share") != std::string::npos);
  }
  CHECK(ranks[1].problem.starts_with("rank 0: rank 1: "));
}

TEST_CASE("what rank 0 cannot read stops all, and all say why", "[snapshot]") {
  job_under_test test;
  std::filesystem::create_directory(test.folder);
  std::ofstream(test.folder + "/snapshot-000003-000040.ddprun") << "DDPRSNAP";
  const auto ranks = test.open(1, 3);
  for (const auto& each : ranks)
    CHECK(each.error == errc::version_mismatch);
  CHECK(ranks[2].problem == "rank 0: " + ranks[0].problem);
}

TEST_CASE("a store is another one than the one before at its port", "[snapshot]") {
  std::uint16_t port = 0;
  {
    job_under_test before;
    port = before.store.port();
    require_open(before.open(1, 2));
  }
  job_under_test test(port);
  require_open(test.open(1, 3));
}

TEST_CASE("a rank that does not come to a snapshot is named", "[snapshot]") {
  job_under_test test;
  test.rank_timeout = std::chrono::milliseconds(300);
  std::vector<rank_result> ranks;
  {
    auto patient = test.options();
    patient.rank_timeout = patience;
    ranks.resize(4);
    // All ranks come to the opening, at which there is no snapshot to read.
    job_under_test::on_all(4, [&](std::uint32_t rank) {
      auto options = patient;
      if (rank == 0) options.rank_timeout = std::chrono::milliseconds(600);
      ranks[rank] = test.open_rank(1, rank, 4, options);
    });
    require_open(ranks);
  }
  const auto save_on = [&](std::uint32_t rank) {
    (void)ranks[rank].job->save(10, 0, small_state(10, rank).view());
    return ranks[rank].job->wait();
  };
  std::vector<error_code> errors(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) { errors[rank] = save_on(rank); });
  CHECK(errors == all(2, errc::timed_out));
  CHECK(ranks[0].job->problem().find("no word from ranks 2 and 3") != std::string::npos);
  CHECK(ranks[1].job->problem() == ranks[0].job->problem());
}

TEST_CASE("a rank that gives up does not wait for the others", "[snapshot]") {
  job_under_test test;
  test.rank_timeout = std::chrono::hours(1);  // this test would hang
  auto ranks = test.open(1, 2);
  require_open(ranks);
  CHECK_FALSE(ranks[0].job->save(10, 0, small_state(10).view()));
  ranks[0].job.reset();  // rank 1 never comes
}

TEST_CASE("a store that is gone ends a save", "[snapshot]") {
  auto store = std::make_unique<served_store>();
  tests::temporary_folder place;
  message_list messages;
  std::vector<open_snapshots> ranks(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    environment here = lone_rank(1);
    here.rank = rank;
    here.world_size = 2;
    here.master_address = "127.0.0.1";
    here.master_port = store->port();
    snapshots_options options;
    options.folder = place.path;
    options.on_message = messages.handler();
    std::string problem;
    auto opened = snapshots::open(here, options, problem);
    if (opened) ranks[rank] = std::move(*opened);
  });
  store.reset();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE(ranks[rank] != nullptr);
    CHECK_FALSE(ranks[rank]->save(10, 0, small_state(10).view()));
    CHECK(ranks[rank]->wait());
    CHECK(ranks[rank]->problem().find("cannot tell rank 0") != std::string::npos);
  }
}

}  // namespace ddprun::tests
