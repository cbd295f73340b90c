// Evidence of a round that ends while its ranks are still being asked. No answer arrives before the
// test runs the loop.
#include "launcher/evidence/evidence_keeper.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/fake_spawner.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher::evidence {
namespace {

using tests::content_of;

// Rank 0 ends; rank 1, which is asked, is this process.
struct asked_round {
  explicit asked_round(int exit_code = 3, bool is_asked_before_all_run = false) {
    keeper.begin_round(1, true);
    if (is_asked_before_all_run) keeper.hear_failure(1, true);
    keeper.all_started();
    worker_end end;
    end.pid = 4711;
    end.how = exit_status{exit_code};
    keeper.note_end(1, end);
    if (!is_asked_before_all_run) keeper.hear_failure(1, true);
    end.rank = end.local_rank = 1;
    end.pid = ::getpid();
    live.clear();
    keeper.round_is_stopped(1);
    keeper.note_end(1, end);
    keeper.all_ended(1);
  }

  keeper_options options() const {
    keeper_options values;
    values.gathering_limit = tests::patience;
    values.names_hangs = false;
    values.worker_count = 2;
    values.is_python = false;
    return values;
  }
  evidence_keeper::outside given() {
    evidence_keeper::outside with;
    with.say = [](note_level, const std::string&) {};
    with.living = [this] { return live; };
    with.words_of = [](std::uint32_t) { return worker_group::words(); };
    with.signal_workers = [](int) {};
    with.kill = [](pid_t) {};
    with.stalls = [](std::optional<stall>) {};
    with.hangs = [](const std::optional<hung_rank>&) {};
    with.memory_files = [] { return std::vector<std::string>(); };
    with.attempt_folder = [this] { return attempt; };
    return with;
  }
  void finish() {
    bool is_done = false;
    keeper.when_kept([&is_done] { is_done = true; });
    REQUIRE(tests::run_until(io, [&is_done] { return is_done; }));
  }

  tests::temporary_folder folder;
  std::string attempt = folder.path + "/attempt_0";
  std::vector<worker_group::live_worker> live{{1, 1, ::getpid(), 0}};
  boost::asio::io_context io;
  tests::fake_spawner spawner;
  evidence_keeper keeper{io.get_executor(), spawner, options(), given()};
};

// Rank 1 has waited in vain, and asking it hangs.
struct hanging_question {
  hanging_question() {
    keeper.begin_round(1, true);
    keeper.all_started();
    keeper.hear_failure(1, true);
  }
  ~hanging_question() { never.set_value(); }

  keeper_options options() {
    keeper_options values;
    values.gathering_limit = std::chrono::milliseconds(50);
    values.names_hangs = false;
    values.worker_count = 2;
    values.is_python = false;
    values.ask = [hangs = never.get_future().share()](const std::shared_ptr<question>&) {
      hangs.wait();
      return node_evidence();
    };
    return values;
  }
  evidence_keeper::outside given() {
    evidence_keeper::outside with;
    with.say = [](note_level, const std::string&) {};
    with.living = [] { return std::vector<worker_group::live_worker>{{1, 1, ::getpid(), 0}}; };
    with.words_of = [](std::uint32_t) { return worker_group::words(); };
    with.signal_workers = [this](int signal) { signals.push_back(signal); };
    with.kill = [](pid_t) {};
    with.stalls = [](std::optional<stall>) {};
    with.memory_files = [] { return std::vector<std::string>(); };
    with.attempt_folder = [] { return std::string(); };
    return with;
  }

  std::promise<void> never;
  std::vector<int> signals;
  boost::asio::io_context io;
  tests::fake_spawner spawner;
  evidence_keeper keeper{io.get_executor(), spawner, options(), given()};
};

core::stop_workers stop_of_round_1(int signal) {
  core::stop_workers order;
  order.round = 1;
  order.signal = signal;
  return order;
}

}  // namespace

TEST_CASE("a stop waits while ranks are asked, and goes on though one holds that up for ever") {
  hanging_question here;
  here.keeper.stop(stop_of_round_1(SIGTERM), false);
  CHECK(here.signals.empty());
  REQUIRE(tests::run_until(here.io, [&here] { return !here.signals.empty(); }));
  CHECK(here.signals == std::vector<int>{SIGTERM});
}

TEST_CASE("a kill, and a stop that a person asks for, wait for no answer of a rank") {
  hanging_question here;
  const bool is_kill = GENERATE(false, true);
  here.keeper.stop(stop_of_round_1(is_kill ? SIGKILL : SIGTERM), !is_kill);
  CHECK(here.signals == std::vector<int>{is_kill ? SIGKILL : SIGTERM});
}

TEST_CASE("the end of a run waits for what ranks of its last round are being asked") {
  asked_round here;
  here.finish();
  CHECK(here.keeper.of(1).folder == here.folder.path + "/attempt_0/evidence");
  CHECK(content_of(here.folder.path + "/attempt_0/evidence/rank_0.txt")
            .find("it ended: exit code 3\n") != std::string::npos);
  CHECK(content_of(here.folder.path + "/attempt_0/evidence/rank_1.txt").find("it was stopped\n") !=
        std::string::npos);
}

TEST_CASE("a rank that fails while others are being started holds up no end of the run") {
  asked_round here(3, true);
  here.finish();
  CHECK(content_of(here.folder.path + "/attempt_0/evidence/rank_0.txt")
            .find("it ended: exit code 3\n") != std::string::npos);
}

TEST_CASE("what is known of a round is kept where the next begins before its ranks have answered") {
  asked_round here;
  here.attempt = here.folder.path + "/attempt_1";
  here.keeper.begin_round(2, true);
  CHECK(here.keeper.of(1).folder == here.folder.path + "/attempt_0/evidence");
  here.keeper.all_started();
  here.finish();
  CHECK(content_of(here.folder.path + "/attempt_0/evidence/rank_0.txt")
            .find("it ended: exit code 3\n") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(here.folder.path + "/attempt_1"));
}

// The failure was another node's: only the report tells, while ranks of this node are still asked.
TEST_CASE("a report that comes while ranks are asked counts for what is kept of their round") {
  for (const bool is_failure : {false, true}) {
    CAPTURE(is_failure);
    asked_round here(0);
    here.keeper.judge(1, is_failure);
    here.keeper.begin_round(2, true);
    here.finish();
    CHECK(std::filesystem::exists(here.folder.path + "/attempt_0/evidence") == is_failure);
  }
}

}  // namespace ddprun::launcher::evidence
