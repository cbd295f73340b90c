// Processes that workers leave behind outside their groups end with the round.
#include "launcher/process/stray_reaper.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// A fixture that makes its process a subreaper.
struct reaping_fixture : process_fixture {
  reaping_fixture() : reaper(io.get_executor(), spawn) {
    strays = &reaper;
    reaper.mark("DDPRUN_SESSION=test");
  }
  ~reaping_fixture() {
    group.reset();
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  // The pids that the workers printed, one per line, once there are so many.
  std::vector<pid_t> printed(std::size_t count) {
    std::vector<pid_t> numbers;
    run_until([&] {
      numbers.clear();
      std::istringstream words(content_of(output_file.get()));
      for (pid_t pid = 0; words >> pid;)
        numbers.push_back(pid);
      return numbers.size() >= count;
    });
    return numbers;
  }

  stray_reaper reaper;
};

// Starts three processes that leave: one in a session of its own, a child of that in another
// session, and one without any environment. Each prints its pid and closes the pipes.
const std::string leaving =
    "sleeper='echo $$; exec sleep 1000 >/dev/null 2>&1'; "
    "setsid sh -c \"$sleeper\" & "
    "(setsid sh -c \"setsid sh -c '$sleeper' & sleep 1000\" >&1 &) ; "
    "(setsid env -i sh -c \"$sleeper\" &) ; ";

const std::string until_told = "until [ -e \"$GO\" ]; do sleep 0.01; done; ";

}  // namespace

TEST_CASE("nothing that has left its worker's group and session outlives the last word") {
  char name[] = "/tmp/ddprun_stray_XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string go = std::string(name) + "/go";
  for (const std::string end : {"exit 0", "exit 3", "SIGTERM", "SIGKILL"}) {
    INFO(end);
    std::filesystem::remove(go);
    reaping_fixture fixture;
    const bool by_signal = end.starts_with("SIG");
    auto command = fixture.shell(leaving + until_told + end, 0, "");
    command.environment.push_back("GO=" + go);
    auto& group = fixture.start_group({command}, {std::chrono::milliseconds(50)});
    const auto strays = fixture.printed(3);
    if (by_signal) {
      group.signal(end == "SIGTERM" ? SIGTERM : SIGKILL);
    } else {
      std::ofstream(go).put('1');
    }
    fixture.run_until([&] { return !fixture.ends.empty(); });
    for (const pid_t stray : strays)
      CHECK(!runs(stray));
    CHECK(fixture.reaper.kill_strays().empty());
    CHECK(list_children().empty());
  }
  std::filesystem::remove_all(name);
}

TEST_CASE("strays of one worker live on while another one runs") {
  const tests::temporary_folder folder;
  reaping_fixture fixture;
  // The worker stays until its stray has printed, because after the worker's end output is read
  // only for a short while.
  auto first = fixture.shell(
      "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &); " + until_told, 0, "");
  first.environment.push_back("GO=" + folder.path + "/go");
  auto& group = fixture.start_group({first, fixture.shell("sleep 1000", 1, "")},
                                    {std::chrono::milliseconds(50)});
  const pid_t stray = fixture.printed(1).front();
  std::ofstream(folder.path + "/go").put('1');
  fixture.run_until([&] { return fixture.ends.size() == 1; });
  CHECK(runs(stray));
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(!runs(stray));
}

TEST_CASE("a stray that holds the pipes does not outlive a kill by the draining") {
  reaping_fixture fixture;
  auto& group = fixture.start_group(
      {fixture.shell("(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000", 0, "")},
      {std::chrono::hours(1)});
  const pid_t stray = fixture.printed(1).front();
  group.kill();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(!runs(stray));
}

TEST_CASE("children that were there before us, and their orphans, are left alone") {
  // As after `sleep 1000 & exec ddprun`, there is a child that is not ours, and a new one that it
  // starts.
  auto report = make_pipe();
  auto order = make_pipe();
  REQUIRE(report.has_value());
  REQUIRE(order.has_value());
  const pid_t before = ::fork();
  REQUIRE(before >= 0);
  if (before == 0) {
    ::dup2(order->read.get(), 0);
    ::dup2(report->write.get(), 1);
    ::execl("/bin/sh", "sh", "-c",
            "read line; (setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000", nullptr);
    ::_exit(127);
  }
  {
    reaping_fixture fixture;
    REQUIRE(::write(order->write.get(), "\n", 1) == 1);
    char text[16] = {};
    REQUIRE(::read(report->read.get(), text, sizeof(text) - 1) > 0);
    const pid_t orphan = std::atoi(text);
    auto command = fixture.shell(
        "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &); until [ -e \"$GO\" ]; do "
        "sleep 0.01; done",
        0, "");
    command.environment.push_back("DDPRUN_SESSION=test");
    auto& group = fixture.start_group({command}, {std::chrono::milliseconds(50)});
    const pid_t stray = fixture.printed(1).front();
    group.signal(SIGTERM);
    fixture.run_until([&] { return fixture.all_ended; });
    CHECK(!runs(stray));
    CHECK(runs(before));
    CHECK(runs(orphan));
    ::kill(before, SIGKILL);
    ::kill(orphan, SIGKILL);
    fixture.run_until([&] { return list_children().empty(); });
  }
}

TEST_CASE("a process whose first thread has ended lives while another one runs") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::thread([] {
      while (true)
        ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  }
  const auto state = [child] {
    std::ifstream file("/proc/" + std::to_string(child) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.substr(text.rfind(')') + 2, 1);
  };
  process_fixture fixture;
  fixture.run_until([&] { return state() == "Z"; });
  CHECK(!is_dead(child));
  ::kill(child, SIGKILL);
  fixture.run_until([&] { return is_dead(child); });
  CHECK(::waitpid(child, nullptr, 0) == child);
  CHECK(is_dead(child));
}

TEST_CASE("the look for strays costs little") {
  reaping_fixture fixture;
  const auto begin = std::chrono::steady_clock::now();
  for (int count = 0; count < 1000; ++count)
    CHECK(fixture.reaper.kill_strays().empty());
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  std::printf("a look for strays where there are none: %.1f us\n", time.count() / 1000);
}
