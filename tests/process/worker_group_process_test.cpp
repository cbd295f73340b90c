// Real workers of one round: they are started, their output is drained, and they are named when
// they fail.
#include "launcher/process/stray_reaper.hpp"
#include "launcher/process/worker_group.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <sys/prctl.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// A script that starts a process in a session of its own, prints its pid on standard error, and
// goes on when that process has left the group. Its output then goes where `redirection` says.
std::string escape(const std::string& redirection) {
  return "exec 3>&1; p=$(setsid sh -c 'echo $$; exec sleep 1000 " + redirection +
         "' & ); echo $p >&2; ";
}

// Behaves as if a child of each worker were stuck in the kernel.
struct stuck_spawner final : spawner {
  explicit stuck_spawner(spawner& under) : real(under) {}

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override {
    return real.spawn(request, std::move(handlers));
  }
  bool adopt(pid_t pid, ended_handler ended) override { return real.adopt(pid, std::move(ended)); }
  void signal_group(pid_t pid, int signal) override { real.signal_group(pid, signal); }
  void reap(pid_t pid) override { real.reap(pid); }
  bool reap_within(pid_t pid, duration limit) override { return real.reap_within(pid, limit); }
  bool owns(pid_t pid) const override { return real.owns(pid); }
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override {
    ++looks;
    return stuck ? groups : real.living_groups(groups);
  }

  spawner& real;
  bool stuck = true;
  int looks = 0;
};

}  // namespace

TEST_CASE("workers of a group start, print whole lines with prefixes, and end") {
  process_fixture fixture;
  const auto ends = fixture.run_group({
      fixture.shell("echo one; echo two >&2", 0, "[a:0] "),
      fixture.shell("printf 'no newline'; exit 3", 1, "[a:1] "),
      fixture.shell("kill -SEGV $$", 2, "[a:2] "),
  });
  REQUIRE(ends.size() == 3);
  CHECK(fixture.all_started);
  CHECK(ends.at(0).status().success());
  CHECK(ends.at(0).tail == "two\n");
  CHECK(ends.at(1).status().describe() == "exit code 3");
  CHECK(ends.at(2).status().signal == SIGSEGV);
  CHECK(ends.at(2).status().signal == SIGSEGV);
  const std::string output = fixture.output();
  CHECK(output.find("[a:0] one\n") != std::string::npos);
  CHECK(output.find("[a:1] no newline\n") != std::string::npos);
  CHECK(fixture.errors() == "[a:0] two\n");
}

TEST_CASE("a worker alone has no prefix, and its output is passed through") {
  process_fixture fixture;
  const auto ends = fixture.run_group({fixture.shell("printf 'a\\rb'", 0, "")});
  REQUIRE(ends.size() == 1);
  CHECK(fixture.output() == "a\rb");
}

TEST_CASE("a worker that cannot be started is named with its stage") {
  process_fixture fixture;
  worker_command command;
  command.argv = {"./no-such-program"};
  const auto ends = fixture.run_group({command});
  CHECK(ends.empty());
  CHECK(!fixture.all_started);
  REQUIRE(fixture.failure);
  CHECK(fixture.failure->describe() ==
        "cannot execute ./no-such-program: No such file or directory (stage: exec)");
}

TEST_CASE("a name that is in no folder of PATH is not found before anything is forked") {
  process_fixture fixture;
  worker_command missing = fixture.shell("", 0, "");
  missing.argv = {"no-such-program-anywhere"};
  CHECK(fixture.run_group({missing, fixture.shell("exit 0", 1, "")}).empty());
  REQUIRE(fixture.failure);
  CHECK(fixture.failure->describe() ==
        "cannot find no-such-program-anywhere: No such file or directory; looked in PATH "
        "(stage: find)");
  CHECK(fixture.not_started == std::vector<std::uint32_t>{1});
}

TEST_CASE("the children of a failed worker are killed with it") {
  process_fixture fixture;
  const auto ends = fixture.run_group({fixture.shell("sleep 1000 & echo $! >&2; exit 3", 0, "")});
  REQUIRE(ends.size() == 1);
  CHECK(!runs(std::stoi(ends.at(0).tail)));
}

TEST_CASE("the children of a successful worker have a moment, and their words count") {
  process_fixture fixture;
  // It prints once the worker is a zombie.
  const char* script = "(until grep -q ') Z' /proc/$$/stat; do sleep 0.01; done; echo late) & exit";
  const auto ends =
      fixture.run_group({fixture.shell(script, 0, "[a] ")}, {std::chrono::minutes(1)});
  CHECK(fixture.output() == "[a] late\n");
}

TEST_CASE("a child that does not end is killed when the moment is over") {
  process_fixture fixture;
  const auto ends = fixture.run_group({fixture.shell("sleep 1000 & echo $! >&2; exit 0", 0, "")},
                                      {std::chrono::milliseconds(50)});
  CHECK(ends.at(0).status().success());
  CHECK(!runs(std::stoi(ends.at(0).tail)));
}

TEST_CASE(
    "a process outside the group that holds the pipes is waited for only for a bounded time") {
  process_fixture fixture;
  const auto ends = fixture.run_group({fixture.shell(escape(">&3") + "echo here; exit 1", 0, "")},
                                      {std::chrono::milliseconds(50)});
  CHECK(fixture.output() == "here\n");
  // It has left the group, and only a cgroup or the subreaper could find it.
  CHECK(::kill(std::stoi(ends.at(0).tail), SIGKILL) == 0);
}

TEST_CASE("a signal reaches every process of every group") {
  process_fixture fixture;
  auto& group = fixture.start_group({
      fixture.shell("sh -c 'echo up; exec sleep 1000'", 0, "[a:0] "),
      fixture.shell("trap 'exit 7' TERM; sleep 1000 & echo up; wait", 1, "[a:1] "),
  });
  fixture.run_until([&] { return content_of(fixture.output_file.get()).size() == 18; });
  CHECK(group.live().size() == 2);
  group.signal(SIGTERM);
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(fixture.ends.at(0).status().describe() == "killed by SIGTERM");
  CHECK(fixture.ends.at(1).status().describe() == "exit code 7");
  CHECK(group.live().empty());
}

TEST_CASE("one look serves all groups that do not die, ever more seldom") {
  process_fixture fixture;
  stuck_spawner stuck(fixture.spawn);
  constexpr int workers = 16;
  std::vector<worker_command> commands;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    commands.push_back(fixture.shell("exit 3", rank, ""));
  std::size_t ended = 0;
  worker_group::events events;
  events.ended = [&](const worker_end&) { ++ended; };
  const auto begun = std::chrono::steady_clock::now();
  worker_group group(fixture.io.get_executor(), stuck, *fixture.mux, nullptr, nullptr, {});
  group.start(commands, std::move(events));
  const auto all_reaped = [&] { return group.live().size() == workers && list_children().empty(); };
  fixture.run_until(all_reaped);
  const int before = stuck.looks;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  fixture.run_until(
      [&] { return std::chrono::steady_clock::now() >= until && stuck.looks > before; });
  // The looks are 1 ms apart at first, then an eighth of the time so far, which makes some 45 in
  // half a second. If each worker had its own looks, 50 ms apart, there would be 160.
  constexpr std::chrono::nanoseconds first_pause = std::chrono::milliseconds(1);
  int most = 5;
  for (auto at = first_pause; at < std::chrono::steady_clock::now() - begun;
       at += std::max(first_pause, at / 8))
    ++most;
  CHECK(stuck.looks - before <= most);
  CHECK(ended == 0);
  stuck.stuck = false;
  fixture.run_until([&] { return ended == workers; });
}

TEST_CASE("a worker that ignores SIGTERM is killed by kill") {
  process_fixture fixture;
  auto& group = fixture.start_group({fixture.shell("trap '' TERM; echo up; sleep 1000", 0, "")});
  fixture.run_until([&] { return content_of(fixture.output_file.get()).size() == 3; });
  group.signal(SIGTERM);
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(fixture.ends.at(0).status().describe() == "killed by SIGKILL");
}

TEST_CASE("a later worker that cannot start leaves the earlier ones to the agent") {
  process_fixture fixture;
  worker_command missing;
  missing.argv = {"/no/such/program"};
  missing.local_rank = 1;
  auto& group = fixture.start_group(
      {fixture.shell("sleep 1000", 0, ""), missing, fixture.shell("sleep 1000", 2, "")});
  fixture.run_until([&] { return fixture.failure.has_value(); });
  CHECK(!fixture.all_started);
  CHECK(group.live().size() == 1);
  CHECK(fixture.not_started == std::vector<std::uint32_t>{2});
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(fixture.ends.size() == 1);
}

TEST_CASE("destroying a group kills its workers, and the spawner reaps them") {
  process_fixture fixture;
  const auto& group = fixture.start_group({fixture.shell("sleep 1000", 0, "")});
  fixture.run_until([&] { return fixture.all_started; });
  const pid_t pid = group.live().at(0).pid;
  fixture.group.reset();
  fixture.run_until([&] { return !fixture.spawn.owns(pid); });
  CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("orphans that come to a subreaper are reaped, and killed when asked") {
  process_fixture fixture;
  stray_reaper strays(fixture.io.get_executor(), fixture.spawn);
  const auto ends =
      fixture.run_group({fixture.shell(escape(">/dev/null 2>&1 3>&1") + "exit 0", 0, "")});
  const pid_t stray = std::stoi(ends.at(0).tail);
  CHECK(::kill(stray, 0) == 0);
  CHECK(strays.kill_strays() == std::vector<pid_t>{stray});
  fixture.run_until([&] { return ::kill(stray, 0) == -1; });
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}
