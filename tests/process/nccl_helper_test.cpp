// The agent's side of ddprun-nccl-id, with shell scripts in place of the helper.
#include "launcher/nccl/nccl_helper.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"
#include "tests/support/temporary_folder.hpp"

#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

struct helper_fixture : process_fixture {
  // `limit`: how long an answer may take. No test that gets one depends on it.
  explicit helper_fixture(const std::string& script, duration limit = std::chrono::minutes(5))
      : program(write(script)) {
    ::signal(SIGPIPE, SIG_IGN);  // as in ddprun
    nccl_helper_options options;
    options.program = program;
    options.environment = environment();
    options.limit = limit;
    helper = std::make_unique<nccl_helper>(io.get_executor(), spawn, *mux, std::move(options),
                                           [this](const std::string& how) { lost.push_back(how); });
  }
  ~helper_fixture() {
    helper.reset();
    // No process is left, not even of the helpers of earlier rounds.
    CHECK(list_children().empty());
  }
  std::string write(const std::string& script) {
    return folder.file("helper", "#!/bin/sh\n" + script + "\n", 0700);
  }
  nccl_answer make(std::uint32_t count = 2) {
    answers.clear();
    helper->make(count, [this](nccl_answer answer) { answers.push_back(std::move(answer)); });
    run_until([&] { return !answers.empty(); });
    return answers.at(0);
  }

  tests::temporary_folder folder;
  std::string program;
  std::vector<nccl_answer> answers;
  std::vector<std::string> lost;
  std::unique_ptr<nccl_helper> helper;
};

constexpr const char* sound =
    "echo version 23007; echo library /x; read count; echo address 10.0.0.1:7; "
    "while [ $count -gt 0 ]; do echo id 0$count; count=$((count - 1)); done; echo end; "
    "read forever";

}  // namespace

TEST_CASE("an NCCL helper makes as many ids as it is asked for, each time a new one") {
  helper_fixture fixture(sound);
  for (int round = 0; round < 3; ++round) {
    const nccl_answer answer = fixture.make();
    CHECK(answer.problem.empty());
    CHECK(answer.ids == std::vector<std::string>{"02", "01"});
    CHECK(answer.version == 23007);
    CHECK(answer.address == "10.0.0.1:7");
    fixture.helper->let_go();
  }
  CHECK(fixture.lost.empty());
}

TEST_CASE("of an NCCL helper that fails half-way no id is handed out") {
  struct failure {
    std::string end;
    duration limit;
  };
  const auto how = GENERATE(failure{"echo problem no more", std::chrono::minutes(5)},
                            failure{"exit 3", std::chrono::minutes(5)},
                            failure{"sleep 100", std::chrono::seconds(2)});
  INFO(how.end);
  helper_fixture fixture("echo version 23007; read count; echo address x; echo id 01; " + how.end,
                         how.limit);
  const nccl_answer answer = fixture.make();
  CHECK_FALSE(answer.problem.empty());
  CHECK(answer.ids.empty());
  CHECK(answer.version == 0);
  CHECK(answer.address.empty());
  CHECK(fixture.answers.size() == 1);
}

TEST_CASE("an NCCL helper that could not be started is no excuse for the next one") {
  helper_fixture fixture(sound);
  std::filesystem::remove(fixture.program);
  fixture.helper->warm_up();
  const std::string first = fixture.make().problem;
  INFO(first);
  CHECK(first.find("No such file") != std::string::npos);
  fixture.helper->let_go();
  fixture.write(sound);
  CHECK(fixture.make().problem == "");
}

// The order may be written before or after the exec has failed, and before or after the agent knows
// of that.
TEST_CASE("why an NCCL helper could not be started is said whenever it is asked") {
  helper_fixture fixture(sound);
  std::filesystem::remove(fixture.program);
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (attempt % 2 == 0) {
      fixture.helper->warm_up();
      for (const pid_t child : list_children()) {
        while (!is_dead(child))
          std::this_thread::yield();
      }
    }
    const std::string said = fixture.make().problem;
    INFO(attempt << ": " << said);
    REQUIRE(said.find("No such file") != std::string::npos);
    fixture.helper->let_go();
  }
}

TEST_CASE("an NCCL helper that died while it waited is replaced by the one that is asked") {
  helper_fixture fixture("[ -e $0.once ] || { touch $0.once; exit 7; }; " + std::string(sound));
  fixture.helper->warm_up();
  fixture.run_until([&] { return std::filesystem::exists(fixture.program + ".once"); });
  const nccl_answer answer = fixture.make();
  CHECK(answer.problem == "");
  CHECK(answer.ids.size() == 2);
}

TEST_CASE("an NCCL helper that dies with its ids is told once") {
  helper_fixture fixture(std::string(sound).substr(0, std::string(sound).find("read forever")) +
                         "exit 5");
  CHECK(fixture.make().problem.empty());
  fixture.run_until([&] { return !fixture.lost.empty(); });
  CHECK(fixture.lost == std::vector<std::string>{"exit code 5"});
}
