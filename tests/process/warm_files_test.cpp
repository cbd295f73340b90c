// Files that spares have imported, and that may have changed since.
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/warm_fixture.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::tests;

namespace {

// A disk that answers when the test lets it.
std::function<std::string(const warm::imported_files&)> waits_for(std::promise<void>& answers) {
  return [waits = answers.get_future().share()](const warm::imported_files&) {
    waits.wait();
    return std::string();
  };
}

}  // namespace

TEST_CASE("spares that have imported a file which has changed are let go as a round ends") {
  const temporary_folder folder;
  const std::string path = folder.file("module.py", "old", 0600);
  warm_fixture fixture;
  const waiting_child child;
  const pid_t worker = fixture.start();
  fixture.get_spare(child, path);
  folder.file("module.py", "new text", 0600);
  SECTION("it is stopped") {
    fixture.warm.signal_group(worker, SIGTERM);
  }
  SECTION("it fails") {
    fixture.end(worker, failed_with(1));
  }
  fixture.run_until([&] { return fixture.warm.waiting() == 0; });
  CHECK(fixture.under.fake[child.pid].signals == std::vector<int>{SIGKILL});
  CHECK(fixture.said.back() ==
        "warm: workers are started cold: " + path + " has changed since the imports were made");
  // The imports of the next workers are recorded, as of any workers that are started cold.
  const std::size_t lines = fixture.said.size();
  CHECK(fixture.start() != child.pid);
  CHECK(fixture.said.size() == lines);
  const waiting_child other;
  fixture.get_spare(other, path);
  fixture.warm.signal_group(fixture.under.fake.newest(), SIGTERM);
  CHECK(fixture.start() == other.pid);
}

TEST_CASE("a worker that comes before its imports have been looked at waits for that") {
  const temporary_folder folder;
  const std::string path = folder.file("module.py", "old", 0600);
  warm::warm_options options = warm_fixture::quick();
  options.check.valid = std::chrono::milliseconds(0);  // the check at the stop is too old
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  fixture.start();
  fixture.get_spare(child, path);
  std::string sent = "work";
  SECTION("they are what they were") {}
  SECTION("one of them is gone") {
    std::filesystem::remove(path);
    sent += " " + path + " has changed since the imports were made";
  }
  CHECK(fixture.start() == child.pid);
  CHECK(fixture.sent_to_spare().empty());
  std::string seen;
  fixture.run_until([&] { return !(seen = fixture.sent_to_spare()).empty(); });
  CHECK(seen == sent);
  CHECK(fixture.has_said("has changed since") == (sent != "work"));
}

TEST_CASE("a worker whose imports have just been looked at does not wait") {
  const temporary_folder folder;
  const std::string path = folder.file("module.py", "old", 0600);
  warm::warm_options options = warm_fixture::quick();
  options.check.valid = std::chrono::hours(1);
  const auto looks = std::make_shared<std::atomic<int>>(0);
  options.check.look = [looks](const warm::imported_files& files) {
    ++*looks;
    return files.changed();
  };
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  const pid_t worker = fixture.start();
  fixture.get_spare(child, path);
  fixture.warm.signal_group(worker, SIGTERM);
  fixture.warm.signal_group(worker, SIGKILL);
  fixture.run_until([&] { return !fixture.warm.looks_at_imports(); });
  CHECK(fixture.start() == child.pid);
  CHECK(fixture.sent_to_spare() == "work");
  CHECK(looks->load() == 1);
}

TEST_CASE("imports on a disk that does not answer cost a cold start, and one line") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  options.check.limit = std::chrono::milliseconds(1);
  std::promise<void> answers;
  options.check.look = waits_for(answers);
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  fixture.start();
  fixture.get_spare(child, folder.file("module.py", "old", 0600));
  CHECK(fixture.start() == child.pid);
  std::string seen;
  fixture.run_until([&] { return !(seen = fixture.sent_to_spare()).empty(); });
  CHECK(seen == "work the files that were imported could not be looked at within 1 ms");
  CHECK(fixture.has_said("workers are started cold: the files that were imported could not be"));
  answers.set_value();
}

TEST_CASE("a spare that dies while its imports are looked at is a worker that has died") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  std::promise<void> answers;
  options.check.look = waits_for(answers);
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  fixture.start();
  fixture.get_spare(child, folder.file("module.py", "old", 0600));
  std::optional<exit_status> ended;
  spawn_handlers called;
  called.ended = [&](pid_t pid, exit_status status) {
    ended = status;
    fixture.warm.reap(pid);
  };
  REQUIRE(fixture.warm.spawn(fixture.worker(), called)->pid == child.pid);
  exit_status by_kill;
  by_kill.signal = SIGKILL;
  fixture.end(child.pid, by_kill);
  REQUIRE(ended);
  CHECK(ended->signal == SIGKILL);
  answers.set_value();
  fixture.run_until([&] { return !fixture.warm.looks_at_imports(); });
  CHECK(fixture.sent_to_spare().empty());
}
