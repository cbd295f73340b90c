// A journal and its thread: which handlers are called when the disk is well, full, or does not
// answer.
#include "rendezvous/journal/sqlite_journal.hpp"

#include "tests/rendezvous/journal/fault_vfs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <atomic>
#include <filesystem>
#include <future>
#include <optional>

using namespace ddprun;
using namespace std::chrono_literals;
using tests::fault_kind;
using tests::fault_vfs;

namespace {

struct fixture {
  tests::temporary_folder at;
  boost::asio::io_context io{1};
  std::uint64_t persisted = 0;
  std::vector<std::string> health;
  std::unique_ptr<journal::sqlite_journal> kept;
  std::chrono::milliseconds alive_interval = 1h;
  std::atomic<std::int64_t> up = 0;  // of the host, in seconds

  explicit fixture(const char* vfs = nullptr) { open(vfs); }

  void open(const char* vfs, std::chrono::milliseconds patience = tests::patience) {
    journal::sqlite_options options;
    options.folder = at.path;
    options.vfs = vfs;
    options.patience = patience;
    options.open_patience = tests::patience;
    options.retry_interval = 1ms;
    options.alive_interval = alive_interval;
    options.clock = [this] { return journal::host_moment{"boot", up, 1'000'000}; };
    journal::open_failure failure;
    kept = journal::sqlite_journal::open(io.get_executor(), options, handlers(), failure);
    INFO(failure.problem);
    REQUIRE(kept);
  }

  journal::handlers handlers() {
    return {[this](std::uint64_t number) { persisted = number; },
            [this](const std::string& problem) { health.push_back(problem); }};
  }

  static core::run_record record(const std::string& run_id, std::uint32_t restarts) {
    core::run_record made;
    made.run_id = run_id;
    made.instance = 7;
    made.restarts_used = restarts;
    return made;
  }

  bool hears_of(std::uint64_t number) {
    return tests::run_until(io, [&] { return persisted >= number; });
  }

  std::vector<core::run_record> next_life() {
    kept.reset();
    open(nullptr);
    return kept->take_loaded();
  }
};

}  // namespace

TEST_CASE("what is said to be kept is there in the next life") {
  fixture f;
  CHECK(f.kept->take_loaded().empty());
  f.kept->keep(f.record("a", 1));
  f.kept->keep(f.record("b", 1));
  f.kept->keep(f.record("a", 2));
  CHECK(f.kept->forget("b") == 4);
  REQUIRE(f.hears_of(4));
  CHECK(f.health.empty());
  CHECK(f.next_life() == std::vector{f.record("a", 2)});
}

TEST_CASE("a run that never changes is kept alive also while others change all the time") {
  fixture f;
  f.alive_interval = 5ms;
  f.next_life();
  const auto last = [&](const std::string& run_id) { return f.kept->keep(f.record(run_id, 1)); };
  REQUIRE(f.hears_of(last("quiet")));
  f.up += 10 * 3600;
  for (const auto end = std::chrono::steady_clock::now() + 20 * f.alive_interval;
       std::chrono::steady_clock::now() < end;)
    last("busy");
  // The thread has run since then, and does whatever is due together with a change.
  REQUIRE(f.hears_of(last("busy")));
  f.next_life();
  CHECK(f.next_life() == std::vector{f.record("busy", 1), f.record("quiet", 1)});
}

TEST_CASE("what was not said yet to be kept is tried once more at the end") {
  fixture f;
  f.kept->keep(f.record("a", 1));
  CHECK(f.next_life() == std::vector{f.record("a", 1)});
}

TEST_CASE("the folder goes with a journal of which all has ended well, where that is asked for") {
  fixture f;
  core::run_record good = f.record("a", 1);
  good.end = core::run_end{0, "every worker succeeded"};
  core::run_record other = f.record("b", 1);
  SECTION("one is open") {
    other.end.reset();
  }
  SECTION("one has failed") {
    other.end = core::run_end{1, "failed"};
  }
  SECTION("of one a node may live") {
    other.end = core::run_end{0, ""};
    other.nodes = 1;
  }
  f.kept.reset();
  const std::string folder = f.at.path + "/state";
  const auto keep = [&](const std::vector<core::run_record>& records) {
    journal::open_failure failure;
    auto kept = journal::in_folder(folder, true)(f.io.get_executor(), f.handlers(), failure);
    REQUIRE(kept);
    for (const core::run_record& record : records)
      kept->keep(record);
  };
  keep({good, other});
  CHECK(std::filesystem::exists(folder + "/journal.sqlite"));
  keep({good, [&] {
          other.end = core::run_end{0, ""};
          other.nodes = 0;
          return other;
        }()});
  CHECK_FALSE(std::filesystem::exists(folder));
  keep({});
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a second daemon is told that the folder is taken") {
  fixture f;
  f.kept->keep(f.record("a", 1));
  REQUIRE(f.hears_of(1));
  journal::open_failure failure;
  CHECK_FALSE(journal::in_folder(f.at.path)(f.io.get_executor(), f.handlers(), failure));
  CHECK(failure.is_taken);
  CHECK(failure.problem.find("in use by another daemon") != std::string::npos);
}

TEST_CASE("a disk that is full delays nothing, and is written when it has room again") {
  fault_vfs disk;
  fixture f(fault_vfs::name);
  f.kept->keep(f.record("a", 1));
  REQUIRE(f.hears_of(1));
  disk.fail_after(0, fault_kind::from_there);
  f.kept->keep(f.record("a", 2));
  f.kept->keep(f.record("b", 1));
  REQUIRE(f.hears_of(3));
  REQUIRE(f.health.size() == 1);
  CHECK(f.health[0].find("cannot write " + f.at.path + "/journal.sqlite: disk I/O error") == 0);
  disk.heal();
  REQUIRE(tests::run_until(f.io, [&] { return f.health.size() == 2; }));
  CHECK(f.health[1].empty());
  CHECK(f.next_life() == std::vector{f.record("a", 2), f.record("b", 1)});
}

TEST_CASE("a disk that does not answer is waited for once, and no longer than that") {
  fault_vfs disk;
  fixture f(fault_vfs::name);
  f.kept->keep(f.record("a", 1));
  REQUIRE(f.hears_of(1));
  // This journal never answers while it lives, however slow the machine is.
  f.kept.reset();
  f.open(fault_vfs::name, 200ms);
  disk.fail_after(0, fault_kind::stall);
  f.persisted = 0;
  REQUIRE(f.hears_of(f.kept->keep(f.record("a", 2))));
  REQUIRE(f.health.size() == 1);
  CHECK(f.health[0].find("has not answered for 200 ms") != std::string::npos);
  REQUIRE(f.hears_of(f.kept->keep(f.record("a", 3))));
  CHECK(f.health.size() == 1);
  disk.heal();
  REQUIRE(tests::run_until(f.io, [&] { return f.health.size() == 2; }));
  CHECK(f.next_life() == std::vector{f.record("a", 3)});
}

TEST_CASE("a folder that cannot be used is found out, and said, at the first write") {
  fixture f;
  f.kept.reset();
  tests::temporary_folder other;
  journal::sqlite_options options;
  std::filesystem::create_symlink("/dev/null", other.path + "/below");
  options.folder = other.path + "/below";
  options.retry_interval = 1ms;
  journal::open_failure failure;
  f.kept = journal::sqlite_journal::open(f.io.get_executor(), options, f.handlers(), failure);
  if (!f.kept) {
    CHECK(failure.problem.find("cannot") == 0);
    return;
  }
  const std::uint64_t number = f.kept->keep(f.record("a", 1));
  REQUIRE(f.hears_of(number));
  REQUIRE(f.health.size() == 1);
  CHECK(f.health[0].find(options.folder) != std::string::npos);
}

TEST_CASE("a journal that is opened beside the loop says when it may be used") {
  fixture f;
  f.kept->keep(f.record("a", 1));
  f.kept.reset();
  std::optional<journal::open_failure> answer;
  journal::open_failure failure;
  journal::sqlite_options options;
  options.folder = f.at.path;
  std::promise<void> heals;
  // Its thread reads the records when the disk answers; as long as the token is held, it may still
  // do so.
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> thread = token;
  options.clock = [healed = heals.get_future().share(), token = std::exchange(token, nullptr)] {
    healed.wait();
    return journal::host_moment{"boot", 0, 1'000'000};
  };
  const auto open = [&] {
    return journal::sqlite_journal::open_in_background(
        f.io.get_executor(), options, f.handlers(),
        [&](const journal::open_failure& why) { answer = why; }, failure);
  };
  SECTION("with what was kept") {
    f.kept = open();
    REQUIRE(f.kept);
    tests::run_ready(f.io);
    CHECK_FALSE(answer);
    heals.set_value();
    REQUIRE(tests::run_until(f.io, [&] { return answer.has_value(); }));
    CHECK(answer->problem.empty());
    CHECK(f.kept->take_loaded() == std::vector{f.record("a", 1)});
    CHECK(f.hears_of(f.kept->keep(f.record("a", 2))));
  }
  SECTION("or why it may not") {
    heals.set_value();
    f.open(nullptr);
    const auto other = open();
    REQUIRE(other);
    REQUIRE(tests::run_until(f.io, [&] { return answer.has_value(); }));
    CHECK(answer->is_taken);
  }
  SECTION("or that the disk does not answer") {
    options.open_patience = 1ms;
    f.kept = open();
    REQUIRE(tests::run_until(f.io, [&] { return answer.has_value(); }));
    CHECK(answer->problem.find("has not answered for 1 ms") != std::string::npos);
    f.kept.reset();
    heals.set_value();
  }
  SECTION("and nothing once it is not wanted any more") {
    f.kept = open();
    f.kept.reset();
    heals.set_value();
    options.clock = {};
    REQUIRE(tests::run_until(f.io, [&] { return thread.expired(); }));
    CHECK_FALSE(answer);
  }
  f.kept.reset();
  options.clock = {};
  CHECK(tests::run_until(f.io, [&] { return thread.expired(); }));
}
