// What becomes of the end of a worker before it is reported; with simulated processes.
#include "launcher/agent/round_workers.hpp"

#include "rendezvous/log/writer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_spawner.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::fake_spawner;
using words = std::vector<std::string>;

namespace {

const std::string kept_by_record =
    R"({"message": {"message": "KeyError: 'x'", "extraInfo": {"py_callstack":)"
    R"( "Traceback (most recent call last):\n  File \"train.py\", line 7, in f\n    g()\n)"
    R"(KeyError: 'x'\n"}}})";

struct node_with_workers {
  node_with_workers()
      : file(::memfd_create("output", MFD_CLOEXEC)),
        out(log::writer::options{file.get(), file.get()}),
        mux(io.get_executor(), out, files) {
    system.makes_pipes = true;
    round_workers::options values;
    values.node = "a";
    values.worker_count = 2;
    values.removes_error_files = true;
    round_workers::outside told;
    told.say = [this](note_level, const std::string& text) { said.push_back(text); };
    told.all_started = [this](round_number round) {
      said.push_back("all started " + std::to_string(round));
    };
    told.ended = [this](round_number round, const worker_end& end) {
      said.push_back("ended " + std::to_string(round) + " " + std::to_string(end.local_rank));
      if (react) react();
    };
    told.explained = [this](core::worker_ended event, const worker_end& end,
                            const std::string& content) {
      CHECK(end.local_rank == event.local_rank);
      events.push_back(std::move(event));
      contents.push_back(content);
    };
    told.not_started = [this](core::worker_ended event) { events.push_back(std::move(event)); };
    told.all_ended = [this](round_number round) {
      said.push_back("all ended " + std::to_string(round));
      CHECK(workers->group() != nullptr);
    };
    told.busy = [](round_number) {};
    workers = std::make_unique<round_workers>(
        io.get_executor(), round_workers::system{system, mux, nullptr, nullptr, oom_kills},
        std::move(values), std::move(told));
  }

  void begin(round_number round, std::vector<std::string> error_files = {}) {
    std::vector<worker_command> commands(2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      commands[rank].argv = {"/bin/train"};
      commands[rank].local_rank = rank;
      commands[rank].rank = 10 + rank;
    }
    workers->begin(round, std::move(commands), std::move(error_files));
    settle();
  }
  // Runs until nothing more happens without the clock or another thread.
  void settle() {
    do {
      tests::run_ready(io);
    } while (system.deliver());
  }
  pid_t pid_of(std::uint32_t local_rank) const { return workers->live().at(local_rank).pid; }
  void end(pid_t worker, exit_status status) {
    system.end(worker, status);
    settle();
  }
  void await_events(std::size_t count) {
    REQUIRE(tests::run_until(io, [&] {
      while (system.deliver()) {
      }
      return events.size() >= count;
    }));
  }

  boost::asio::io_context io{1};
  unique_fd file;
  log::writer out;
  log_files files;
  log_mux mux;
  fake_spawner system;
  oom_watch oom_kills{{}, ""};
  words said, contents;
  std::vector<core::worker_ended> events;
  std::function<void()> react;
  std::unique_ptr<round_workers> workers;
};

}  // namespace

TEST_CASE("the end of a worker is told at once, and then with the reason that it has printed") {
  node_with_workers node;
  CHECK(node.workers->round() == 0);
  CHECK(node.workers->live().empty());
  node.begin(3);
  CHECK(node.said == words{"all started 3"});
  CHECK(node.workers->run(3));
  CHECK_FALSE(node.workers->run(2));
  CHECK(node.workers->live().size() == 2);
  const pid_t failing = node.pid_of(1);
  const pid_t other = node.pid_of(0);
  REQUIRE(::write(node.system[failing].errors.write.get(), "why\n", 4) == 4);
  node.end(failing, {3, 0, false});
  CHECK(node.said == words{"all started 3", "ended 3 1"});
  REQUIRE(node.events.size() == 1);
  CHECK(node.events[0].round == 3);
  CHECK(node.events[0].local_rank == 1);
  CHECK_FALSE(node.events[0].success);
  const cause& why = node.events[0].cause;
  CHECK(why.round == 3);
  CHECK(why.node == "a");
  CHECK(why.rank == 11);
  CHECK(why.code == 3);
  CHECK(why.tail == "why\n");
  node.end(other, {});
  CHECK(node.events.at(1).success);
  CHECK(node.said.back() == "all ended 3");
  CHECK(node.workers->group() == nullptr);
  CHECK_FALSE(node.workers->run(3));
}

TEST_CASE("the error file of a failed worker counts more than its output, and is removed") {
  const tests::temporary_folder folder;
  const std::string of_first = folder.file("0.json", "", 0600);
  const std::string of_second = folder.file("1.json", kept_by_record, 0600);
  node_with_workers node;
  node.begin(1, {of_first, of_second});
  node.end(node.pid_of(1), {1, 0, false});
  node.await_events(1);
  CHECK(node.events[0].cause.text == "KeyError: 'x'");
  CHECK(node.contents[0] == kept_by_record);
  CHECK_FALSE(std::filesystem::exists(of_second));
  CHECK(std::filesystem::exists(of_first));
  SECTION("that of the others when the next round begins") {
    node.begin(2, {});
    CHECK_FALSE(std::filesystem::exists(of_first));
  }
  SECTION("or when no round follows") {
    node.workers.reset();
    CHECK_FALSE(std::filesystem::exists(of_first));
  }
}

TEST_CASE("what a worker says after it was asked to end is no reason") {
  const tests::temporary_folder folder;
  const std::string file = folder.file("0.json", kept_by_record, 0600);
  node_with_workers node;
  node.begin(1, {file, file});
  CHECK_FALSE(node.workers->are_ending());
  SECTION("before its end") {
    node.workers->expect_end(1);
    CHECK(node.workers->are_ending());
  }
  SECTION("while its end is told") {
    node.react = [&] { node.workers->expect_end(1); };
  }
  node.workers->group()->signal(SIGTERM);
  node.settle();
  REQUIRE(node.events.size() == 2);
  CHECK(node.events[0].cause.kind == cause_class::signal);
  CHECK(node.events[0].cause.text.empty());
  CHECK(node.contents[0].empty());
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("a worker that cannot be started is a failure, and those after it are none") {
  node_with_workers node;
  node.system.failure = start_failure{start_stage::exec, ENOENT, "/bin/train", {}, false, false};
  node.begin(2);
  REQUIRE(node.events.size() == 2);
  for (const core::worker_ended& event : node.events) {
    CHECK(event.round == 2);
    CHECK_FALSE(event.success);
    CHECK(event.cause.kind == cause_class::start);
    CHECK(event.cause.node == "a");
    CHECK(event.cause.local_rank == event.local_rank);
  }
  CHECK(node.events[0].cause.code == ENOENT);
  CHECK(node.events[0].cause.text.starts_with("cannot execute /bin/train: "));
  CHECK_FALSE(node.events[0].cause.by_our_stop);
  CHECK(node.events[1].cause.code == 0);
  CHECK(node.events[1].cause.by_our_stop);
  CHECK(node.said == words{"all ended 2"});
}

TEST_CASE("workers of a round that is given up before its start are told from the loop") {
  node_with_workers node;
  node.workers->never_start(5);
  CHECK(node.events.empty());
  node.settle();
  REQUIRE(node.events.size() == 2);
  CHECK(node.events[1].round == 5);
  CHECK(node.events[1].local_rank == 1);
  CHECK(node.events[1].cause.by_our_stop);
  node.workers->never_start(6);
  node.workers.reset();
  node.settle();
  CHECK(node.events.size() == 2);
}
