// A user's command that gets events: --on-event.
#include "launcher/process/hook_runner.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

struct hook_fixture : process_fixture {
  explicit hook_fixture(const std::string& command, duration limit = test_limit,
                        std::size_t most = 16) {
    hook_options options;
    options.name = "--on-event";
    options.command = command;
    options.environment = environment();
    options.environment.push_back("FOLDER=" + folder.path);
    options.prefix = "[a:on-event] ";
    options.limit = limit;
    options.waiting_max = most;
    hook = std::make_unique<hook_runner>(io.get_executor(), spawn, *mux, guard, std::move(options),
                                         [this](const std::string& line) { said.push_back(line); });
  }
  ~hook_fixture() {
    hook.reset();
    CHECK(list_children().empty());
  }
  void finish(duration limit = test_limit) {
    bool is_done = false;
    hook->finish(limit, [&] { is_done = true; });
    run_until([&] { return is_done; });
  }
  std::string file(const std::string& name) const {
    return tests::content_of(folder.path + "/" + name);
  }

  tests::temporary_folder folder;
  std::vector<std::string> said;
  std::unique_ptr<hook_runner> hook;
};

}  // namespace

TEST_CASE("a hook is run once for each event, in order, one at a time, and is shown") {
  hook_fixture fixture(
      "mkdir $FOLDER/alone && cat >> $FOLDER/told && echo told && rmdir "
      "$FOLDER/alone");
  for (const char* text : {"one\n", "two\n", "three\n"})
    fixture.hook->run({"event", text});
  fixture.finish();
  CHECK(fixture.file("told") == "one\ntwo\nthree\n");
  CHECK(fixture.said.empty());
  CHECK(fixture.errors() == "[a:on-event] told\n[a:on-event] told\n[a:on-event] told\n");
  CHECK(fixture.output().empty());
}

TEST_CASE("a hook that fails costs a line, and the next one is run") {
  hook_fixture fixture("read word; [ $word = good ] && touch $FOLDER/good");
  fixture.hook->run({"round_failed of round 2", "bad\n"});
  fixture.hook->run({"ended", "good\n"});
  fixture.finish();
  CHECK(fixture.said ==
        std::vector<std::string>{
            "--on-event: round_failed of round 2: the command failed: exit code 1"});
  CHECK(std::filesystem::exists(fixture.folder.path + "/good"));
}

TEST_CASE("a hook that does not end is killed with all that it has started") {
  hook_fixture fixture("sleep 1000 & sleep 1000", 50ms);
  fixture.hook->run({"ended", ""});
  fixture.finish();
  CHECK(fixture.said == std::vector<std::string>{
                            "--on-event: ended: the command is killed: it had not ended after 50 "
                            "ms"});
}

TEST_CASE("what a hook leaves behind in its group ends with it") {
  hook_fixture fixture("sleep 1000 & echo $! > $FOLDER/pid");
  fixture.hook->run({"ended", ""});
  fixture.finish();
  const pid_t pid = std::stoi(fixture.file("pid"));
  fixture.run_until([&] { return !runs(pid); });
  CHECK(fixture.said.empty());
}

TEST_CASE("events beyond a short queue are counted, and said in one line") {
  hook_fixture fixture("while [ ! -e $FOLDER/go ]; do sleep 0.01; done", test_limit, 2);
  for (int count = 0; count < 6; ++count)
    fixture.hook->run({"event", ""});
  fixture.folder.file("go", "", 0600);
  fixture.finish();
  CHECK(fixture.said == std::vector<std::string>{"--on-event: 3 events were left out: the command "
                                                 "was busy with those before"});
}

TEST_CASE("at the end a hook has a bounded time, and what waits is left out") {
  hook_fixture fixture("sleep 1000");
  fixture.hook->run({"round_failed of round 1", ""});
  fixture.hook->run({"ended", ""});
  fixture.finish(50ms);
  CHECK(fixture.said ==
        std::vector<std::string>{"--on-event: round_failed of round 1: the command is killed: the "
                                 "run is over, and it had 50 ms to end",
                                 "--on-event: 1 event was left out: the command was busy with "
                                 "those before"});
}
