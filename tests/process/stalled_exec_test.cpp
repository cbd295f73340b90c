// The exec of a worker hangs, as on a file system that does not answer, and nothing else may hang.
#include "tests/support/stalled_exec.hpp"

#include "launcher/process/background_task.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"

#include <boost/asio/steady_timer.hpp>

#include <csignal>
#include <future>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

worker_command command_of(const stalled_exec& stalled, std::uint32_t local_rank) {
  worker_command command = process_fixture::shell("", local_rank, "");
  command.argv = {stalled.program()};
  return command;
}

// Whether a process holds the same open file as a descriptor of ours.
bool holds(pid_t pid, const unique_fd& ours) {
  struct stat wanted {};
  REQUIRE(::fstat(ours.get(), &wanted) == 0);
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    struct stat found {};
    if (::stat(file.path().c_str(), &found) == 0 && found.st_ino == wanted.st_ino &&
        found.st_dev == wanted.st_dev) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("an exec that hangs does not hold up the loop, and goes on when it can") {
  process_fixture fixture;
  stalled_exec stalled("echo ran; exit 3");
  auto& group = fixture.start_group(
      {fixture.shell("sleep 1000", 0, ""), command_of(stalled, 1), fixture.shell("exit 0", 2, "")});
  fixture.run_until([&] { return stalled.is_waited_for(); });
  // The loop runs: timers fire, and the next worker waits for its turn.
  bool fired = false;
  boost::asio::steady_timer timer(fixture.io, std::chrono::milliseconds(1));
  timer.async_wait([&](boost::system::error_code) { fired = true; });
  fixture.run_until([&] { return fired; });
  CHECK(group.live().size() == 2);
  CHECK(!fixture.all_started);
  stalled.let_go();
  fixture.run_until([&] { return fixture.all_started && fixture.ends.size() == 2; });
  CHECK(fixture.ends.at(1).status().describe() == "exit code 3");
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(fixture.output() == "ran\n");
}

TEST_CASE("a signal while an exec hangs reaches the others at once, and nothing more is started") {
  for (const int signal : {SIGTERM, SIGKILL}) {
    process_fixture fixture;
    stalled_exec stalled("echo ran");
    auto& group =
        fixture.start_group({fixture.shell("sleep 1000", 0, ""), command_of(stalled, 1),
                             fixture.shell("echo ran", 2, ""), fixture.shell("echo ran", 3, "")});
    fixture.run_until([&] { return stalled.is_waited_for(); });
    group.signal(signal);
    fixture.run_until([&] { return fixture.all_ended; });
    // There is one report for each of them: two were started, two were not.
    CHECK(fixture.ends.at(0).status().signal == signal);
    CHECK(fixture.ends.at(1).status().signal == SIGKILL);
    CHECK(fixture.ends.size() == 2);
    CHECK(fixture.not_started == std::vector<std::uint32_t>{2, 3});
    CHECK(!fixture.all_started);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(fixture.output().empty());
  }
}

TEST_CASE("a child that hangs in exec holds nothing of the agent open") {
  process_fixture fixture;
  stalled_exec stalled("exit 0");
  auto held = make_pipe();
  REQUIRE(held.has_value());
  auto& group = fixture.start_group({command_of(stalled, 0)});
  fixture.run_until([&] { return stalled.is_waited_for(); });
  CHECK(!holds(group.live().at(0).pid, held->write));
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
}

TEST_CASE("destroying a group whose worker hangs in exec kills it") {
  process_fixture fixture;
  stalled_exec stalled("exit 0");
  auto& group = fixture.start_group({command_of(stalled, 0)});
  fixture.run_until([&] { return stalled.is_waited_for(); });
  const pid_t pid = group.live().at(0).pid;
  fixture.group.reset();
  fixture.run_until([&] { return !fixture.spawn.owns(pid); });
  CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("an interpreter that hangs is no failure of the script") {
  process_fixture fixture;
  stalled_exec stalled("exit 0");
  const std::string script = stalled.folder() + "/script";
  std::ofstream(script) << "#!" << stalled.program() << "\n";
  ::chmod(script.c_str(), 0755);
  worker_command command = command_of(stalled, 0);
  command.argv = {script};
  fixture.start_group({command});
  fixture.run_until([&] { return stalled.is_waited_for(); });
  CHECK(!fixture.failure);
  fixture.group->kill();
  fixture.run_until([&] { return fixture.all_ended; });
}

TEST_CASE("a background task that hangs delays no other, and reports to no owner that is gone") {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::promise<void> ran;
  {
    boost::asio::io_context io(1);
    background_task<int> held(io.get_executor());
    held.start([opened] { return opened.wait(), 1; },
               [](std::optional<int>) { FAIL("cancelled"); });
    CHECK(held.under_way());
    held.cancel();
    std::optional<int> answer;
    background_task<int> other(io.get_executor());
    other.start([] { return 2; }, [&](std::optional<int> found) { answer = found; });
    CHECK(!answer);
    io.restart();  // the cancelled operation was the only work
    io.run();      // ends, because only pending operations count
    CHECK(answer == 2);
    held.start([opened, &ran] { return opened.wait(), ran.set_value(), 3; },
               [](std::optional<int>) { FAIL("its owner is gone"); });
  }
  gate.set_value();
  ran.get_future().wait();
}
