// A program that only reads, beside a training job, in a folder that it may not write to.
#include "worker/snapshot/reader.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/ranks_on_threads.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;

class read_only_disk final : public hooked_disk {
 public:
  error_code make_folder(const std::string&, bool&) override { return refuse(); }
  result<std::unique_ptr<output_file>> create(const std::string&) override { return refuse(); }
  error_code rename_to_new(const std::string&, const std::string&) override { return refuse(); }
  error_code remove(const std::string&) override { return refuse(); }
  error_code remove_folder(const std::string&) override { return refuse(); }
  error_code sync_folder(const std::string&) override { return refuse(); }
  int asked = 0;  // calls other than reads

 private:
  error_code refuse() {
    ++asked;
    return system_error(EROFS);
  }
};

struct reading_job : job_under_test {
  read_only_disk seen;
  message_list said;
  std::string problem;

  result<std::optional<resumed_snapshot>> read() {
    problem.clear();
    return read_newest_snapshot(folder, problem, {said.handler(), &seen});
  }
  std::uint64_t step() {
    const auto found = read();
    INFO(problem);
    REQUIRE(found.has_value());
    if (!*found) return 0;
    CHECK(small_state((*found)->info.step).compare(**found) == "");
    CHECK(!(*found)->own);
    return (*found)->info.step;
  }
  std::set<std::string> everything() const {
    std::set<std::string> names;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
      names.insert(each.path());
    return names;
  }
};

}  // namespace

TEST_CASE("a reader finds the newest snapshot beside the job that trains", "[snapshot]") {
  reading_job test;
  test.writers = GENERATE(1u, 2u);
  CHECK(test.read().error() == system_error(ENOENT));
  CHECK(test.problem ==
        "cannot read the snapshot folder " + test.folder + ": No such file or directory");
  auto ranks = test.open(1, 3);
  require_open(ranks);
  CHECK(test.step() == 0);
  for (const std::uint64_t step : {10, 20}) {
    CHECK(save(ranks, step) == all(3));
    const auto before = test.everything();
    CHECK(test.step() == step);
    CHECK(test.everything() == before);
  }
  CHECK(save(ranks, 30) == all(3));  // the job has not lost the folder
  CHECK(test.seen.asked == 0);
  CHECK(test.said.text() == "");
}

TEST_CASE("a reader skips what is damaged, and says so", "[snapshot]") {
  reading_job test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(1));
  CHECK(save(ranks, 20) == all(1));
  const auto damage = [&](const std::string& name) {
    std::fstream file(test.folder + "/" + name + "/rank-00000.safetensors",
                      std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('!');
  };
  damage("snapshot-000001-000020");
  CHECK(test.step() == 10);
  CHECK(test.said.all() ==
        std::vector<std::string>{"snapshot " + test.folder +
                                 "/snapshot-000001-000020 skipped: rank-00000.safetensors: its "
                                 "bytes do not match their checksum"});
  damage("snapshot-000001-000010");
  CHECK(test.read().error() == errc::damaged);
  CHECK(test.problem == "no snapshot in " + test.folder +
                            " can be read; to begin from the start, move the damaged ones away");
}

TEST_CASE("a snapshot that goes while it is read has a newer one behind it", "[snapshot]") {
  reading_job test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(1));
  bool is_first = true;
  test.seen.before_look = [&](const std::string& path) {
    if (!path.ends_with("000010/rank-00000.safetensors") || !is_first) return;
    is_first = false;
    for (const std::uint64_t step : {20, 30, 40})
      CHECK(save(ranks, step) == all(1));
  };
  CHECK(test.step() == 40);
  CHECK(test.said.text() == "");
}

TEST_CASE("a disk that fails a reader is named", "[snapshot]") {
  struct failing_disk final : public hooked_disk {
    error_code scan(const std::string&, const piece_handler&) override { return system_error(EIO); }
  };
  reading_job test;
  auto ranks = test.open(1, 1);
  require_open(ranks);
  CHECK(save(ranks, 10) == all(1));
  failing_disk disk;
  const auto found = read_newest_snapshot(test.folder, test.problem, {test.said.handler(), &disk});
  CHECK(found.error() == system_error(EIO));
  CHECK(test.problem == "snapshot " + test.folder +
                            "/snapshot-000001-000010 cannot be read: rank-00000.safetensors: "
                            "Input/output error");
}

}  // namespace ddprun::tests
