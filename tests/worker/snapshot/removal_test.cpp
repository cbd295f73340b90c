// Old snapshots and what a dead job has left are removed by all ranks together: one that removes
// the files of all others, one after the other, is waited for by all of them.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"
#include "worker/snapshot/names.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// Counts what each thread does to the files of ranks: in a job each rank removes on one of its own.
class counting_removals final : public hooked_disk {
 public:
  std::string stays;  // what ends so cannot be removed

  error_code remove(const std::string& path) override {
    if (!stays.empty() && path.ends_with(stays)) return system_error(EBUSY);
    const auto error = hooked_disk::remove(path);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!error && name.starts_with("rank-")) {
      const std::lock_guard lock(mutex_);
      removed_[std::this_thread::get_id()].insert(name);
    }
    return error;
  }
  // How many the busiest thread has removed since the last call, "of" how many names there were.
  std::string most_and_all() {
    const std::lock_guard lock(mutex_);
    std::size_t most = 0;
    std::set<std::string> names;
    for (const auto& [thread, files] : std::exchange(removed_, {})) {
      most = std::max(most, files.size());
      names.insert(files.begin(), files.end());
    }
    return std::to_string(most) + " of " + std::to_string(names.size());
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::multiset<std::string>> removed_;
};

struct removing_job : job_under_test {
  counting_removals files;

  std::vector<rank_result> open_all(round_number round, std::uint32_t world_size) {
    std::vector<rank_result> ranks(world_size);
    on_all(world_size, [&](std::uint32_t rank) {
      auto with = options();
      with.keep = 1;
      with.files = &files;
      ranks[rank] = open_rank(round, rank, world_size, with);
    });
    return ranks;
  }
  bool exists(const std::string& name) const {
    return std::filesystem::exists(folder + "/" + name);
  }
};

}  // namespace

TEST_CASE("the ranks remove their files of old snapshots side by side", "[snapshot]") {
  removing_job test;
  auto ranks = test.open_all(1, 8);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(8));
  CHECK(test.files.most_and_all() == "0 of 0");
  CHECK(save(ranks, 20) == all(8));
  CHECK(test.files.most_and_all() == "1 of 8");
  CHECK(!test.exists("snapshot-000001-000010"));
  // Of a job that had more ranks, rank 0 removes those that are nobody's.
  ranks = test.open_all(2, 6);
  require_open(ranks);
  CHECK(save(ranks, 30) == all(6));
  CHECK(test.files.most_and_all() == "3 of 8");
  CHECK(!test.exists("snapshot-000001-000020"));
  CHECK(test.messages.text() == "");
}

TEST_CASE("the ranks remove side by side what a dead job has not finished", "[snapshot]") {
  removing_job test;
  {
    auto ranks = test.open_all(1, 8);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(8));
  }
  for (const std::string step : {"20", "30"}) {
    const std::string place = test.folder + "/snapshot-000001-0000" + step;
    std::filesystem::create_directory(place);
    for (std::uint32_t rank = 0; rank < 8; ++rank)
      std::ofstream(place + "/" + rank_file_name(rank)) << "half";
  }
  auto ranks = test.open_all(2, 8);
  require_open(ranks);
  CHECK(test.files.most_and_all() == "2 of 8");
  CHECK(!test.exists("snapshot-000001-000020"));
  CHECK(!test.exists("snapshot-000001-000030"));
  CHECK(ranks[7].job->resumed()->info.step == 10);
  CHECK(test.messages.text() == "");
}

TEST_CASE("what a rank could not remove goes with the next save", "[snapshot]") {
  removing_job test;
  auto ranks = test.open_all(1, 3);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(3));
  test.files.stays = rank_file_name(1);
  CHECK(save(ranks, 20) == all(3));
  CHECK(test.exists("snapshot-000001-000010/" + rank_file_name(1)));
  CHECK(!test.exists("snapshot-000001-000010/manifest.json"));
  CHECK(save(ranks, 30) == all(3));
  CHECK(test.messages.all() ==
        std::vector<std::string>{"cannot remove the old snapshot " + test.folder +
                                 "/snapshot-000001-000010: Directory not empty"});
  // Another's file, which no rank tries again; but those of the next one.
  test.files.stays.clear();
  CHECK(save(ranks, 40) == all(3));
  CHECK(!test.exists("snapshot-000001-000020"));
  CHECK(!test.exists("snapshot-000001-000030"));
  // And what is left of the first is the next job's to remove.
  CHECK(test.exists("snapshot-000001-000010"));
  ranks.clear();
  ranks = test.open_all(2, 3);
  require_open(ranks);
  CHECK(!test.exists("snapshot-000001-000010"));
}

}  // namespace ddprun::tests
