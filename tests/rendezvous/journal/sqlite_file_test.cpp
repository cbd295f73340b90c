#include "rendezvous/journal/sqlite_file.hpp"

#include "tests/rendezvous/journal/fault_vfs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sqlite3.h>
#include <unistd.h>

using namespace ddprun;
using journal::change;
using journal::open_failure;
using journal::sqlite_file;
using tests::fault_kind;
using tests::fault_vfs;
using folder = tests::temporary_folder;

namespace {

core::run_record record_of(const std::string& run_id, instance_id instance, round_number rounds) {
  core::run_record made;
  made.run_id = run_id;
  made.instance = instance;
  made.rounds_reserved = rounds;
  made.nodes = static_cast<std::uint32_t>(rounds % 1000);
  made.gone_after = std::chrono::microseconds(rounds % 1000);
  made.lost_after = std::chrono::hours(24 * 30);
  return made;
}

std::unique_ptr<sqlite_file> opened(const std::string& path, const char* vfs = nullptr) {
  open_failure failure;
  auto file = sqlite_file::open(path, failure, vfs);
  INFO(failure.problem);
  REQUIRE(file);
  return file;
}

std::vector<core::run_record> records(sqlite_file& file) {
  std::string problem;
  const auto found = file.read(problem);
  INFO(problem);
  REQUIRE(found);
  return *found;
}

bool write(sqlite_file& file, const std::vector<change>& changes) {
  std::string problem;
  return file.write(changes, problem);
}

}  // namespace

TEST_CASE("what was written is there when the file is opened again") {
  const folder at;
  core::run_record closed = record_of("b", 0xfedcba9876543210, 1000);
  closed.restarts_used = 4'000'000'000;
  closed.restarts_forgiven = 3'999'999'999;
  closed.end = core::run_end{137, "rank 3 was killed by SIGKILL; \"quoted\"\nand more"};
  const core::past_end before{7, {3, "it failed\nbadly"},        12, 5,
                              4, started_job{"d", "p", "s", "n"}};
  const core::past_end first{0xfedcba9876543211, {0, {}}, 0, 0, 0, {}};
  closed.past = shared_list<core::past_end>({before, first});
  core::run_record open = record_of("a", 1, std::uint64_t{1} << 53);
  open.nodes = 4;
  open.members = shared_list<std::string>({"node-a", "", "node-c (10.0.0.3)"});
  open.due = core::due_end{std::uint64_t{1} << 53, {1, "all 3 restarts are used\n"}};
  {
    const auto file = opened(at.path + "/made/on/the/way");
    CHECK(records(*file).empty());
    core::run_record forgotten = record_of("c", 3, 1);
    forgotten.past = closed.past;
    CHECK(write(*file, {{"b", forgotten}, {"c", forgotten}}));
    CHECK(write(*file, {{"a", open}, {"b", closed}, {"c", std::nullopt}}));
  }
  const auto again = opened(at.path + "/made/on/the/way");
  CHECK(records(*again) == std::vector<core::run_record>{open, closed});
}

TEST_CASE("a file of the first version opens, and goes on as one of this") {
  const folder at;
  sqlite3* old = nullptr;
  REQUIRE(sqlite3_open(sqlite_file::path_in(at.path).c_str(), &old) == SQLITE_OK);
  const char* const words =
      "CREATE TABLE runs (run_id TEXT PRIMARY KEY, instance TEXT NOT NULL, rounds_reserved INTEGER "
      "NOT NULL, restarts_used INTEGER NOT NULL, nodes INTEGER NOT NULL, gone_after_us INTEGER NOT "
      "NULL, lost_after_us INTEGER NOT NULL, exit_code INTEGER, text TEXT NOT NULL, changed_at "
      "TEXT "
      "NOT NULL DEFAULT CURRENT_TIMESTAMP) STRICT, WITHOUT ROWID; "
      "INSERT INTO runs (run_id, instance, rounds_reserved, restarts_used, nodes, gone_after_us, "
      "lost_after_us, text) VALUES ('a', '1f', 16, 3, 2, 5, 6, ''); PRAGMA user_version = 1;";
  REQUIRE(sqlite3_exec(old, words, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(old);
  core::run_record known = record_of("a", 0x1f, 16);
  known.restarts_used = 3;
  known.nodes = 2;
  known.gone_after = std::chrono::microseconds(5);
  known.lost_after = std::chrono::microseconds(6);
  {
    const auto file = opened(at.path);
    CHECK(records(*file) == std::vector<core::run_record>{known});
    known.restarts_forgiven = 2;
    CHECK(write(*file, {{"a", known}}));
  }
  CHECK(records(*opened(at.path)) == std::vector<core::run_record>{known});
}

TEST_CASE("a second daemon is told that the file is in use") {
  const folder at;
  const auto first = opened(at.path);
  open_failure failure;
  CHECK_FALSE(sqlite_file::open(at.path, failure));
  CHECK(failure.is_taken);
  CHECK(failure.problem.find("journal.sqlite is in use by another daemon") != std::string::npos);
  CHECK(failure.problem.find("--state-dir") != std::string::npos);
}

TEST_CASE("what is no journal is named, and left as it is") {
  const folder at;
  const std::string path = at.path + "/journal.sqlite";
  open_failure failure;
  SECTION("another file") {
    std::ofstream(path) << std::string(5000, 'x');
    CHECK_FALSE(sqlite_file::open(at.path, failure));
    CHECK_FALSE(failure.is_taken);
    CHECK(failure.problem.find("file is not a database") != std::string::npos);
    CHECK(std::filesystem::file_size(path) == 5000);
  }
  SECTION("a folder that cannot be made") {
    std::ofstream(at.path + "/file") << "x";
    CHECK_FALSE(sqlite_file::open(at.path + "/file/below", failure));
    CHECK(failure.problem.find("cannot create the state folder") != std::string::npos);
  }
}

TEST_CASE("each write, sync and truncation may fail: nothing half-done is ever seen") {
  for (const fault_kind kind : {fault_kind::once, fault_kind::full_once, fault_kind::from_there}) {
    bool has_failed = true;
    for (std::uint64_t call = 0; has_failed; ++call) {
      INFO("call " << call << ", kind " << static_cast<int>(kind));
      const folder at;
      fault_vfs disk;
      {
        const auto file = opened(at.path, fault_vfs::name);
        REQUIRE(write(*file, {{"a", record_of("a", 1, 10)}, {"b", record_of("b", 1, 10)}}));
        disk.fail_after(call, kind);
        const bool first = write(*file, {{"a", record_of("a", 2, 20)}, {"b", std::nullopt}});
        has_failed = disk.has_failed();
        // Whatever that write reported, the next one writes everything.
        disk.heal();
        const auto seen = records(*file);
        if (first) CHECK(seen == std::vector{record_of("a", 2, 20)});
        CHECK((seen.size() == 1) == (seen.front().instance == 2));
        CHECK(write(*file, {{"a", record_of("a", 3, 30)}, {"b", std::nullopt}}));
      }
      CHECK(records(*opened(at.path)) == std::vector{record_of("a", 3, 30)});
    }
  }
}

// A failing case has its seed in its name, so that it can be run again by hand.
TEST_CASE("after a loss of power all is there that was said to be written") {
  for (const std::uint64_t seed : tests::cases_to_take(60, 20)) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const folder at;
    fault_vfs disk;
    std::map<std::string, core::run_record> kept;
    std::map<std::string, core::run_record> tried;
    {
      open_failure failure;
      auto file = sqlite_file::open(at.path, failure, fault_vfs::name);
      REQUIRE(file);
      disk.fail_after(random() % 400, fault_kind::power);
      for (std::uint64_t number = 1; number <= 100; ++number) {
        tried = kept;
        std::vector<change> changes;
        for (std::uint64_t each = 0; each <= random() % 3; ++each) {
          const std::string id = "run-" + std::to_string(random() % 5);
          if (random() % 4 == 0) {
            changes.push_back({id, std::nullopt});
            tried.erase(id);
          } else {
            changes.push_back({id, record_of(id, number, random() % 1000)});
            tried[id] = *changes.back().second;
          }
        }
        if (!write(*file, changes)) break;
        kept = tried;
      }
    }
    disk.heal();
    disk.cut_power(seed);
    std::map<std::string, core::run_record> found;
    for (const core::run_record& one : records(*opened(at.path)))
      found[one.run_id] = one;
    CHECK((found == kept || found == tried));
  }
}

TEST_CASE("the job that a run was opened with is kept, also that there was none") {
  const folder at;
  core::run_record said = record_of("a", 1, 16);
  said.job = started_job{"a1", "train.py", "10:31", "node-a"};
  core::run_record with_id = record_of("b", 2, 16);
  with_id.job = started_job{"", "train.py", "10:31", "node-a"};
  const core::run_record silent = record_of("c", 3, 16);
  CHECK(write(*opened(at.path), {{"a", said}, {"b", with_id}, {"c", silent}}));
  CHECK(records(*opened(at.path)) == std::vector<core::run_record>{said, with_id, silent});
}

TEST_CASE("a record counts for as long as its daemon is alive, and not for good afterwards") {
  const folder at;
  journal::host_moment now{"boot", 1000, 1'000'000};
  const auto open_now = [&] {
    open_failure failure;
    auto file = sqlite_file::open(at.path, failure, nullptr, [&] { return now; });
    REQUIRE(file);
    return file;
  };
  core::run_record record = record_of("a", 1, 16);
  record.lost_after = std::chrono::minutes(10);
  REQUIRE(write(*open_now(), {{"a", record}}));
  now.up += 30 * 24 * 3600;  // a month of training without any change
  now.clock += 30 * 24 * 3600;
  REQUIRE(open_now()->show_alive());
  now.up += 3600;
  CHECK(records(*open_now()).size() == 1);
  now.up += 600;
  CHECK(records(*open_now()).empty());
  // A daemon that has not read the record does not keep it alive, either.
  const auto next = open_now();
  CHECK(records(*next).empty());
  REQUIRE(next->show_alive());
  CHECK(records(*next).empty());
  CHECK(next->is_done());
}
