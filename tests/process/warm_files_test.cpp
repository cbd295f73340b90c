// Files that spares have imported, and that may have changed since.
#include "launcher/warm/memory_file.hpp"
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

// The same, with what it answers.
std::function<std::string(const warm::imported_files&)> hears(std::promise<std::string>& answers) {
  return [waits = answers.get_future().share()](const warm::imported_files&) {
    const std::string changed = waits.get();
    return changed;
  };
}

exit_status by_kill() {
  exit_status status;
  status.signal = SIGKILL;
  return status;
}

// A worker that is started with this spare, and what is told of it.
struct started_worker {
  started_worker(warm_fixture& fixture, pid_t spare) {
    spawn_handlers called;
    called.executed = [this] { has_executed = true; };
    called.failed = [this](const start_failure& why) { failed = why; };
    called.ended = [this, &warm = fixture.warm](pid_t pid, exit_status status) {
      ended = status;
      warm.reap(pid);
    };
    const auto started = fixture.warm.spawn(fixture.worker(), std::move(called));
    REQUIRE(started.has_value());
    CHECK(started->pid == spare);
  }
  started_worker(const started_worker&) = delete;
  started_worker& operator=(const started_worker&) = delete;

  bool has_executed = false;
  std::optional<start_failure> failed;
  std::optional<exit_status> ended;
};

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

TEST_CASE("a disk that is slow to answer has answered for the start that follows at once") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  const auto seconds = std::make_shared<std::atomic<int>>(0);
  const auto looks = std::make_shared<std::atomic<int>>(0);
  options.check.now = [seconds] { return time_point(std::chrono::seconds(*seconds)); };
  options.check.look = [seconds, looks](const warm::imported_files&) {
    *seconds += 3;
    ++*looks;
    return std::string();
  };
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  const pid_t worker = fixture.start();
  fixture.get_spare(child, folder.file("module.py", "old", 0600));
  fixture.warm.signal_group(worker, SIGTERM);
  fixture.run_until([&] { return !fixture.warm.looks_at_imports(); });
  SECTION("at once") {
    CHECK(fixture.start() == child.pid);
    CHECK(fixture.sent_to_spare() == "work");
    CHECK(looks->load() == 1);
  }
  SECTION("a second later") {
    ++*seconds;
    CHECK(fixture.start() == child.pid);
    CHECK(fixture.sent_to_spare().empty());
    fixture.run_until([&] { return fixture.sent_to_spare() == "work"; });
    CHECK(looks->load() == 2);
  }
}

TEST_CASE("a spare that dies while its imports are looked at is a start that may be repeated") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  std::promise<void> answers;
  options.check.look = waits_for(answers);
  int killed = 0;
  options.killed = [&killed] { ++killed; };
  warm_fixture fixture(std::move(options));
  const waiting_child child, other;
  fixture.start();
  fixture.get_spare(child, folder.file("module.py", "old", 0600));
  started_worker worker(fixture, child.pid);
  CHECK(fixture.order() == "spare");
  SECTION("by itself: the next one takes its place") {
    fixture.end(child.pid, by_kill());
    CHECK(killed == 1);
    REQUIRE(worker.failed);
    CHECK(worker.failed->stage == start_stage::spare);
    CHECK(is_shortage(worker.failed->error));
    CHECK(worker.failed->describe() ==
          "cannot start python: a spare worker that was to run it has ended before it began");
    CHECK_FALSE(worker.has_executed);
    CHECK_FALSE(worker.ended);
    fixture.make_spare(other);
    fixture.run_until([&] { return fixture.warm.waiting() == 1; });
    started_worker next(fixture, other.pid);
    answers.set_value();
    fixture.run_until([&] { return fixture.sent_to_spare() == "work"; });
  }
  SECTION("unseen: its order does not reach it") {
    fixture.theirs.back().reset();
    answers.set_value();
    fixture.run_until([&] {
      fixture.under.fake.deliver();
      return worker.failed.has_value();
    });
    CHECK(worker.failed->stage == start_stage::spare);
    CHECK_FALSE(worker.has_executed);
    CHECK_FALSE(worker.ended);
  }
  SECTION("since its worker is stopped") {
    fixture.warm.signal_group(child.pid, SIGKILL);
    fixture.run_until([&] { return !fixture.under.fake.deliver(); });
    CHECK_FALSE(worker.failed);
    REQUIRE(worker.ended);
    CHECK(worker.ended->signal == SIGKILL);
    CHECK(killed == 0);
    answers.set_value();
    fixture.run_until([&] { return !fixture.warm.looks_at_imports(); });
    CHECK(fixture.sent_to_spare().empty());
  }
}

TEST_CASE("a first worker that waits for a look, and is then started cold, is learnt from") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  std::promise<std::string> answers;
  options.check.look = hears(answers);
  warm_fixture fixture(std::move(options));
  const waiting_child child, next;
  fixture.start();
  const std::string path = folder.file("module.py", "old", 0600);
  fixture.get_spare(child, path);
  CHECK(fixture.start() == child.pid);
  CHECK(fixture.order() == "spare");
  answers.set_value("numpy.py");
  std::optional<net::packet> sent;
  fixture.run_until([&] {
    auto read = net::receive_packet(fixture.theirs.back().get());
    if (read && !read->text.empty()) sent = std::move(*read);
    return sent.has_value();
  });
  CHECK(sent->text == "work numpy.py has changed since the imports were made");
  REQUIRE(sent->descriptors.size() == 4);
  const std::string work = warm::text_of(sent->descriptors.front());
  CHECK(work.find(std::string("\0PYTHONPATH=/proc/", 18)) != std::string::npos);
  fixture.get_spare(next, path);
}

TEST_CASE("what a cold worker imports while files are looked at is kept, whatever has changed") {
  const temporary_folder folder;
  warm::warm_options options = warm_fixture::quick();
  std::promise<std::string> answers;
  options.check.look = hears(answers);
  warm_fixture fixture(std::move(options));
  const waiting_child child, next;
  const pid_t worker = fixture.start();
  const std::string path = folder.file("module.py", "old", 0600);
  fixture.get_spare(child, path);
  SECTION("its Python is another one") {
    fixture.warm.signal_group(worker, SIGTERM);
    fixture.python = "/another/python";
    CHECK(fixture.start() != child.pid);
    fixture.import_modules(1);
  }
  SECTION("its spare has died") {
    started_worker held(fixture, child.pid);
    CHECK(fixture.order() == "spare");
    fixture.end(child.pid, by_kill());
    CHECK(fixture.start() != child.pid);
  }
  CHECK(fixture.warm.looks_at_imports());
  answers.set_value("numpy.py");
  fixture.run_until([&] { return !fixture.warm.looks_at_imports(); });
  fixture.get_spare_of_list(next, path);
}
