// worker_group as a shell around the rules, with simulated processes: when handlers are called,
// what they may do, and what the spawner is asked for. tests/process uses real processes.
#include "launcher/process/worker_group.hpp"

#include "rendezvous/log/writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_spawner.hpp"
#include "tests/support/loop.hpp"

#include <memory>
#include <sys/mman.h>
#include <unistd.h>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::launcher;
using tests::fake_process;
using tests::fake_spawner;
using words = std::vector<std::string>;

namespace {

struct group_fixture {
  group_fixture()
      : file(::memfd_create("output", MFD_CLOEXEC)),
        out(log::writer::options{file.get(), file.get()}),
        mux(io.get_executor(), out, files) {
    system.makes_pipes = true;
    group = std::make_unique<worker_group>(io.get_executor(), system, mux, nullptr, nullptr,
                                           worker_group::options{});
  }

  static std::vector<worker_command> commands(std::uint32_t count,
                                              const std::string& program = "/bin/train") {
    std::vector<worker_command> result(count);
    for (std::uint32_t place = 0; place < count; ++place) {
      result[place].argv = {program, std::to_string(place)};
      result[place].environment = {"PATH=/nowhere:/bin", "PLACE=" + std::to_string(place)};
      result[place].local_rank = 10 + place;
      result[place].rank = 20 + place;
    }
    return result;
  }

  void start(std::vector<worker_command> given) {
    worker_group::events events;
    events.all_started = [this] { say("all started"); };
    events.short_of = [this](const start_failure&) { say("short"); };
    events.ended = [this](const worker_end& end) {
      if (end.was_started()) ends.push_back(end);
      const char* const how[] = {"ended ", "failed ", "not started "};
      say(how[end.how.index()] + std::to_string(end.local_rank));
    };
    events.all_ended = [this] { say("all ended"); };
    group->start(std::move(given), std::move(events));
  }

  void say(const std::string& word) {
    CHECK(!is_in_call);
    said.push_back(word);
    if (react) react(word);
  }

  // Runs until nothing more happens without the clock.
  void settle() {
    do {
      tests::run_ready(io);
    } while (system.deliver());
  }
  void run_until(const std::function<bool()>& done) {
    REQUIRE(tests::run_until(io, [&] {
      while (system.deliver()) {
      }
      return done();
    }));
  }
  pid_t pid_of(std::size_t place) const { return group->live().at(place).pid; }

  boost::asio::io_context io{1};
  unique_fd file;
  log::writer out;
  log_files files;
  log_mux mux;
  fake_spawner system;
  std::unique_ptr<worker_group> group;
  words said;
  std::vector<worker_end> ends;
  std::function<void(const std::string&)> react;
  bool is_in_call = false;
};

}  // namespace

TEST_CASE("worker group: each worker is spawned with what it was given, and told with its end") {
  group_fixture fixture;
  fixture.start(fixture.commands(2));
  fixture.settle();
  CHECK(fixture.said == words{"all started"});
  const auto live = fixture.group->live();
  REQUIRE(live.size() == 2);
  CHECK(live[1].local_rank == 11);
  CHECK(live[1].rank == 21);
  const fake_process& second = fixture.system[live[1].pid];
  CHECK(second.request.program == "/bin/train");
  CHECK(second.request.argv == words{"/bin/train", "1"});
  CHECK(second.request.environment == words{"PATH=/nowhere:/bin", "PLACE=1"});
  REQUIRE(::write(second.errors.write.get(), "why\n", 4) == 4);
  fixture.system.end(live[1].pid, {3, 0, false});
  fixture.settle();
  REQUIRE(fixture.ends.size() == 1);
  CHECK(fixture.ends[0].local_rank == 11);
  CHECK(fixture.ends[0].rank == 21);
  CHECK(fixture.ends[0].pid == live[1].pid);
  CHECK(fixture.ends[0].status().code == 3);
  CHECK(fixture.ends[0].tail == "why\n");
  CHECK(fixture.group->live().size() == 1);
  fixture.system.end(live[0].pid, {});
  fixture.settle();
  CHECK(fixture.said == words{"all started", "ended 11", "ended 10", "all ended"});
  CHECK(fixture.system.has_nothing_left());
}

TEST_CASE("worker group: a program is looked for in PATH, without holding up anybody") {
  group_fixture fixture;
  fixture.start(fixture.commands(2, "sh"));
  fixture.run_until([&] { return !fixture.said.empty(); });
  CHECK(fixture.said == words{"all started"});
  for (const std::size_t place : {0U, 1U})
    CHECK(fixture.system[fixture.pid_of(place)].request.program == "/bin/sh");
  fixture.group->kill();
  fixture.settle();
}

TEST_CASE("worker group: no handler is called from inside a call") {
  group_fixture fixture;
  const bool is_refused = GENERATE(false, true);
  if (is_refused) fixture.system.refusal = start_failure{};
  fixture.is_in_call = true;
  fixture.start(fixture.commands(3));
  fixture.is_in_call = false;
  SECTION("a kill before anything") {
    fixture.is_in_call = true;
    fixture.group->kill();
    fixture.is_in_call = false;
    fixture.settle();
    CHECK(fixture.said == words{"not started 10", "not started 11", "not started 12", "all ended"});
    CHECK(fixture.system.size() == 0);
  }
  SECTION("a kill later") {
    fixture.settle();
    fixture.is_in_call = true;
    fixture.group->kill();
    fixture.is_in_call = false;
    fixture.settle();
    CHECK(fixture.said.size() == (is_refused ? 4 : 5));
    CHECK(fixture.said.back() == "all ended");
  }
}

TEST_CASE("worker group: what a call has to tell is told though nothing else happens") {
  group_fixture fixture;
  fixture.system.refusal = start_failure{start_stage::fork, EAGAIN, "train", {}, false, false};
  fixture.start(fixture.commands(2));
  fixture.settle();
  fixture.group->kill();
  CHECK(fixture.said == words{"short"});
  fixture.settle();
  CHECK(fixture.said == words{"short", "not started 10", "not started 11", "all ended"});
}

TEST_CASE("worker group: a signal from inside a handler reaches the others before the next word") {
  group_fixture fixture;
  fixture.start(fixture.commands(3));
  fixture.settle();
  const auto live = fixture.group->live();
  std::size_t signals = 0;
  fixture.react = [&](const std::string& word) {
    if (word != "ended 10") return;
    fixture.group->signal(SIGTERM);
    signals =
        fixture.system[live[1].pid].signals.size() + fixture.system[live[2].pid].signals.size();
  };
  fixture.system.end(live[0].pid, {3, 0, false});
  fixture.settle();
  CHECK(signals == 2);
  CHECK(fixture.said.size() == 5);
  CHECK(fixture.said.back() == "all ended");
}

TEST_CASE(
    "worker group: a handler may destroy the group at any word: no word follows, none is left") {
  const std::string last = GENERATE(as<std::string>(), "all started", "short", "failed 11",
                                    "not started 12", "ended 10", "ended 12", "all ended");
  INFO(last);
  group_fixture fixture;
  bool is_gone = false;
  fixture.react = [&](const std::string& word) {
    CHECK(!is_gone);
    if (word != last) return;
    is_gone = true;
    fixture.group.reset();
  };
  const bool is_short = last == "short";
  const bool is_refused = is_short || last.starts_with("failed") || last.starts_with("not");
  fixture.system.exec_hangs = true;
  fixture.start(fixture.commands(3));
  fixture.settle();
  if (is_refused) {
    fixture.system.refusal =
        start_failure{start_stage::fork, is_short ? EAGAIN : EPERM, "train", {}, false, false};
  }
  fixture.system.exec_hangs = false;
  fixture.system.execute(fixture.system.newest());
  fixture.settle();
  if (fixture.group) {
    fixture.system.end(fixture.pid_of(0), {3, 0, false});
    fixture.settle();
  }
  if (fixture.group) fixture.group->kill();
  fixture.settle();
  CHECK(is_gone);
  CHECK(fixture.system.has_nothing_left());
}

TEST_CASE("worker group: a start that lacks a resource is tried again, for as long as it takes") {
  group_fixture fixture;
  fixture.system.refusal = start_failure{start_stage::fork, EAGAIN, "train", {}, false, false};
  fixture.start(fixture.commands(1));
  fixture.settle();
  CHECK(fixture.said == words{"short"});
  CHECK(fixture.group->live().empty());
  fixture.system.refusal.reset();
  fixture.run_until([&] { return fixture.said.size() == 2; });
  CHECK(fixture.said == words{"short", "all started"});
  fixture.group->kill();
  fixture.settle();
  CHECK(fixture.said == words{"short", "all started", "ended 10", "all ended"});
}

TEST_CASE("worker group: a group that empties late is looked at again, until it has") {
  group_fixture fixture;
  fixture.start(fixture.commands(1));
  fixture.settle();
  const pid_t pid = fixture.pid_of(0);
  fixture.system[pid].children = 1;
  fixture.system[pid].is_stuck = true;
  fixture.system[pid].output.write.reset();
  fixture.system[pid].errors.write.reset();
  fixture.system.end(pid, {});
  fixture.run_until([&] { return fixture.system[pid].is_reaped; });
  CHECK(fixture.group->live().size() == 1);
  CHECK(fixture.said == words{"all started"});
  fixture.system.free(pid);
  fixture.run_until([&] { return fixture.said.size() == 3; });
  CHECK(fixture.said == words{"all started", "ended 10", "all ended"});
}
