// Tests that what one rank has read of a snapshot is sent to the others: each byte is read once, by
// a rank that can read it.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/broadcast_of_threads.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

// A disk that returns errors for some files.
class partly_readable final : public hooked_disk {
 public:
  std::set<std::string> unreadable;  // suffixes of names

  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    for (const auto& name : unreadable) {
      if (path.ends_with(name)) return system_error(EIO);
    }
    return hooked_disk::scan(path, on_piece);
  }
};

struct handing_job : job_under_test {
  std::map<std::uint32_t, partly_readable> disks;  // of each rank, in the next round
  std::unique_ptr<broadcast_of_threads> between;
  std::mutex mutex;
  std::map<std::string, std::multiset<std::uint32_t>> looks;  // by file: its readers

  // Changes what a rank receives; none: it receives what was sent.
  std::function<void(std::uint32_t rank, char* bytes, std::size_t count)> on_the_way;

  std::vector<rank_result> resume(round_number round, std::uint32_t world_size) {
    std::vector<rank_result> ranks(world_size);
    between = std::make_unique<broadcast_of_threads>(world_size);
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      disks[rank].before_look = [this, rank](const std::string& path) {
        const std::lock_guard lock(mutex);
        if (path.ends_with(".safetensors")) looks[path.substr(path.rfind('/') + 1)].insert(rank);
      };
    }
    on_all(world_size, [&](std::uint32_t rank) {
      auto with = options();
      with.files = &disks.at(rank);
      with.broadcast = [this, rank, pass = between->of(rank)](std::uint32_t root, char* bytes,
                                                              std::size_t count) {
        pass(root, bytes, count);
        if (on_the_way) on_the_way(rank, bytes, count);
      };
      ranks[rank] = open_rank(round, rank, world_size, with);
    });
    return ranks;
  }
  void save_with_shares(std::uint32_t world_size) {
    writers = 2;
    auto ranks = open(1, world_size);
    require_open(ranks);
    REQUIRE(save(ranks, 10) == all(world_size));
  }
  // Lets all ranks fetch their tensors together and compare them; returns what is wrong.
  static std::string compare(std::vector<rank_result>& ranks, std::uint64_t step) {
    std::vector<std::string> wrong(ranks.size());
    on_all(static_cast<std::uint32_t>(ranks.size()), [&](std::uint32_t rank) {
      auto found = *ranks[rank].job->resumed();
      std::vector<std::string> fetched;
      fetched.reserve(found.replicated.tensors.size());
      for (auto& tensor : found.replicated.tensors) {
        fetched.emplace_back(bytes_of(tensor).value(), '\0');
        tensor.copy(fetched.back().data());
        tensor.bytes = fetched.back();
      }
      wrong[rank] = small_state(step, rank).compare(found);
    });
    std::string all;
    for (const auto& each : wrong)
      all += each;
    return all;
  }
};

}  // namespace

TEST_CASE("each file is read by one rank, and all have what is in it", "[snapshot]") {
  handing_job test;
  test.save_with_shares(3);
  const std::uint32_t world_size = GENERATE(3u, 2u, 1u, 5u);
  auto ranks = test.resume(2, world_size);
  require_open(ranks);
  CHECK(handing_job::compare(ranks, 10) == "");
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    CHECK(ranks[rank].job->resumed()->own.has_value() == (world_size == 3));
  for (const auto& [name, by] : test.looks) {
    INFO(name);
    CHECK(std::set(by.begin(), by.end()).size() == 1);
  }
  CHECK(test.looks.contains("rank-00001.safetensors"));
  CHECK(test.messages.text() == "");
}

TEST_CASE("what a rank cannot read another one reads for it", "[snapshot]") {
  handing_job test;
  test.save_with_shares(3);
  const std::uint32_t world_size = GENERATE(3u, 2u);
  const auto blind = GENERATE(std::set<std::uint32_t>{1}, std::set<std::uint32_t>{0, 1});
  for (const std::uint32_t rank : blind)
    test.disks[rank].unreadable = {"rank-00000.safetensors", "rank-00001.safetensors",
                                   "rank-00002.safetensors"};
  auto ranks = test.resume(2, world_size);
  if (blind.size() == world_size) {
    for (const auto& each : ranks)
      CHECK(each.error == system_error(EIO));
    CHECK(ranks[1].problem.find("cannot be read: rank ") != std::string::npos);
    return;
  }
  require_open(ranks);
  CHECK(handing_job::compare(ranks, 10) == "");
  for (std::uint32_t rank = 0; rank < world_size; ++rank)
    CHECK(ranks[rank].job->resumed()->own.has_value() == (world_size == 3));
  // The next round finds the snapshot nevertheless.
  CHECK(save(ranks, 20) == all(world_size));
}

TEST_CASE("a share that its reader finds damaged none of them takes", "[snapshot]") {
  handing_job test;
  {
    test.writers = 2;
    auto ranks = test.open(1, 3);
    require_open(ranks);
    CHECK(save(ranks, 10) == all(3));
    CHECK(save(ranks, 20) == all(3));
  }
  std::fstream file(test.folder + "/snapshot-000001-000020/rank-00001.safetensors",
                    std::ios::in | std::ios::out);
  file.seekp(-1, std::ios::end);
  file.put('!');
  file.close();
  auto ranks = test.resume(2, 3);
  require_open(ranks);
  CHECK(handing_job::compare(ranks, 10) == "");
  CHECK(test.messages.last().ends_with(
      "skipped: rank 1: rank-00001.safetensors: its bytes do not match their checksum"));
}

TEST_CASE("what comes to one rank damaged none of them takes", "[snapshot]") {
  handing_job test;
  test.writers = 2;
  {
    auto ranks = test.open(1, 3);
    require_open(ranks);
    for (const std::uint64_t step : {10, 20}) {
      CHECK_FALSE(ranks[0].job->progress(step));
      CHECK(save(ranks, step) == all(3));
    }
  }
  std::size_t heard = 0;  // by rank 1
  test.on_the_way = [&](std::uint32_t rank, char* bytes, std::size_t) {
    // The header's length comes first, then the header: damage that of the newest snapshot only.
    if (rank == 1 && ++heard == 2) bytes[8] = '!';
  };
  auto ranks = test.resume(2, 3);
  require_open(ranks);
  for (const auto& each : ranks)
    CHECK(each.job->resumed()->info.step == 10);
  CHECK(handing_job::compare(ranks, 10) == "");
  const std::string place = test.folder + "/snapshot-000001-0000";
  CHECK(test.messages.last().starts_with(
      "snapshot " + place +
      "20 skipped: rank 1: rank-00000.safetensors, as received from another rank: "));
  CHECK_FALSE(std::filesystem::exists(place + "20/resumed-000002"));
  CHECK(std::filesystem::exists(place + "10/resumed-000002"));
}

TEST_CASE("ranks that lose each other while they hand on say so", "[snapshot]") {
  handing_job test;
  {
    auto saved = test.open(1, 2);
    require_open(saved);
    CHECK_FALSE(saved[0].job->progress(10));
    REQUIRE(save(saved, 10) == all(2));
  }
  std::vector<rank_result> ranks(2);
  broadcast_of_threads between(2);
  between.break_off();
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    auto options = test.options();
    options.broadcast = between.of(rank);
    ranks[rank] = test.open_rank(2, rank, 2, options);
  });
  for (const auto& each : ranks) {
    CHECK(each.error == errc::connection_closed);
    CHECK(each.problem ==
          "cannot distribute what ranks have read of the snapshot: the ranks have lost each other");
  }
  // No rank has resumed from it.
  CHECK_FALSE(std::filesystem::exists(test.folder + "/snapshot-000001-000010/resumed-000002"));
}

TEST_CASE("a long tensor is handed on in pieces", "[snapshot]") {
  handing_job test;
  constexpr std::size_t long_bytes = (std::size_t{33} << 20) + 5;
  const small_state whole(10, 0, long_bytes);
  {
    auto ranks = test.open(1, 2);
    require_open(ranks);
    job_under_test::on_all(2, [&](std::uint32_t rank) {
      (void)ranks[rank].job->save(10, 0, small_state(10, rank, long_bytes).view());
      (void)ranks[rank].job->wait();
    });
  }
  auto ranks = test.resume(2, 2);
  require_open(ranks);
  std::vector<std::string> models(2);
  job_under_test::on_all(2, [&](std::uint32_t rank) {
    const auto* const model = ranks[rank].job->resumed()->replicated.find("model");
    models[rank].resize(bytes_of(*model).value());
    model->copy(models[rank].data());
  });
  for (const auto& each : models)
    CHECK((each == whole.model()));
  CHECK(test.between->most_at_once() == std::size_t{16} << 20);
}

}  // namespace ddprun::tests
