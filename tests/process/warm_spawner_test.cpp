// The agent's side of warm workers, with the test's own spares in place of Python's.
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/warm_fixture.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::tests;

namespace {

// A list of imports that a script has left in its last run.
struct last_life {
  last_life() {
    learnt.folder = folder.path + "/imports";
    learnt.key = "train.py";
    learnt.python = folder.file("python",
                                "\x7f"
                                "ELF",
                                0755);
    REQUIRE(learnt.keep({learnt.python, "H 3.11.2\nI json \n"}).empty());
  }

  warm::warm_options options() const {
    warm::warm_options values = warm_fixture::quick();
    values.learnt = learnt;
    return values;
  }

  temporary_folder folder;
  warm::learnt_imports learnt;
};

// A node that waits for others, in the second run of its script.
struct second_life : warm_fixture {
  explicit second_life(const last_life& last) : warm_fixture(last.options()) {
    python = last.learnt.python;
    warm.look_up(worker());
    CHECK(order() == "load");
    zygote = under.fake.newest();
  }

  // Its imports are made, and this spare waits.
  void get_ready(const waiting_child& child) {
    answer("ready 1 ");
    CHECK(order() == "spare");
    make_spare(child);
    run_until([&] { return warm.waiting() == 1; });
  }

  pid_t zygote;
};

// The machine's memory, as the agent's other thread sees it.
struct changing_memory {
  warm::warm_options options() const {
    warm::warm_options values = warm_fixture::quick();
    values.memory.read = [left = left] {
      return warm::memory_levels{{"this machine", left->load(), 100ULL << 30, 0}};
    };
    values.memory.pause = values.memory.pause_near = std::chrono::milliseconds(1);
    values.memory.rest = values.memory.rest_max = std::chrono::milliseconds(1);
    return values;
  }

  std::shared_ptr<std::atomic<std::uint64_t>> left =
      std::make_shared<std::atomic<std::uint64_t>>(50ULL << 30);
};

}  // namespace

TEST_CASE("a spare whose end could not be noticed is killed, and no worker is started in it") {
  warm_fixture fixture;
  fixture.under.fake.has_handles = false;
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  fixture.answer("ready 1 ");
  for (std::size_t time = 0; time < 3; ++time) {
    const waiting_child child;
    CHECK(fixture.order() == "spare");
    fixture.make_spare(child);
    fixture.run_until([&] { return fixture.under.adopted.size() == time + 1; });
    CHECK(fixture.under.fake[child.pid].signals == std::vector<int>{SIGKILL});
    CHECK(fixture.warm.waiting() == 0);
  }
  fixture.run_until([&] { return fixture.has_said("no descriptor is left to watch"); });
}

TEST_CASE("a spare whose socket does not arrive is one that could not be made") {
  warm_fixture fixture;
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  fixture.answer("ready 1 ");
  for (int time = 0; time < 3; ++time) {
    CHECK(fixture.order() == "spare");
    fixture.answer("spare 4711");
  }
  fixture.run_until([&] { return fixture.has_said("no descriptor is left for spare workers"); });
}

TEST_CASE("a spare or a zygote that is killed is reported, not one that is let go or ends") {
  warm::warm_options options = warm_fixture::quick();
  int killed = 0;
  options.killed = [&killed] { ++killed; };
  warm_fixture fixture(std::move(options));
  const waiting_child child;
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  const pid_t zygote = fixture.under.fake.newest();
  fixture.answer("ready 1 ");
  CHECK(fixture.order() == "spare");
  fixture.make_spare(child);
  fixture.run_until([&] { return fixture.warm.waiting() == 1; });
  exit_status by_kill;
  by_kill.signal = SIGKILL;
  SECTION("the spare") {
    fixture.end(child.pid, by_kill);
    CHECK(killed == 1);
  }
  SECTION("the spare has ended") {
    fixture.end(child.pid, failed_with(1));
    CHECK(killed == 0);
  }
  SECTION("the zygote, and the spare is let go") {
    fixture.end(zygote, by_kill);
    CHECK(fixture.under.fake[child.pid].signals == std::vector<int>{SIGKILL});
    fixture.end(child.pid, by_kill);
    CHECK(killed == 1);
  }
}

TEST_CASE("a worker that fails in the same way cold has its script to blame, however late") {
  warm_fixture fixture;
  const waiting_child child;
  fixture.end(fixture.start_warm(child), failed_with(5));
  CHECK(fixture.has_said("the next ones are started cold"));
  const pid_t cold = fixture.start();
  CHECK(cold != child.pid);
  // Its imports take seconds; and others of its round, which are cold as well, may succeed.
  const pid_t other = fixture.start("1");
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  fixture.run_until([&] { return std::chrono::steady_clock::now() >= until; });
  fixture.end(other, failed_with(0));
  fixture.end(cold, failed_with(5));
  CHECK_FALSE(fixture.has_said("no more workers are started warm"));
  const waiting_child next;
  CHECK(fixture.order() == "spare");
  fixture.make_spare(next);
  fixture.run_until([&] { return fixture.warm.waiting() == 1; });
  CHECK(fixture.start() == next.pid);
}

TEST_CASE("a worker that lives cold where a warm one fails at once turns warm starts off") {
  warm_fixture fixture;
  const waiting_child child;
  fixture.end(fixture.start_warm(child), failed_with(5));
  const pid_t first = fixture.start();
  fixture.warm.signal_group(first, SIGKILL);  // it was stopped with its round, which shows nothing
  fixture.run_until([&] { return !fixture.under.fake.deliver(); });
  CHECK_FALSE(fixture.has_said("no more workers are started warm"));
  SECTION("it ends well") {
    fixture.end(fixture.start(), failed_with(0));
  }
  SECTION("it has imported what the other had, and lives on") {
    fixture.start();
    fixture.import_modules(10);
  }
  fixture.run_until([&] {
    return fixture.has_said(
        "no more workers are started warm: a warm worker failed in its first second");
  });
}

TEST_CASE("the first workers of a known script are warm where its imports are made by then") {
  const last_life last;
  second_life fixture(last);
  const waiting_child child;
  fixture.get_ready(child);
  CHECK(fixture.start() == child.pid);
}

TEST_CASE("imports that are not made by the first start are left to the workers") {
  const last_life last;
  second_life fixture(last);
  fixture.start();
  CHECK(fixture.under.fake[fixture.zygote].signals == std::vector<int>{SIGKILL});
  CHECK(fixture.said.empty());
  fixture.import_modules(1);  // of this run only
  CHECK(fixture.order() == "load");
  CHECK(fixture.under.fake.newest() != fixture.zygote);
}

TEST_CASE("a list of the last life that leads to nothing is forgotten, and this life makes one") {
  const last_life last;
  second_life fixture(last);
  fixture.answer("refused the imports have left threads running: 1");
  fixture.run_until([&] {
    return fixture.has_said(
        "what the script imported when it last ran is not imported ahead: "
        "the imports have left threads running: 1");
  });
  fixture.run_until([&] { return !last.learnt.read().list; });
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  fixture.answer("ready 1 ");
  CHECK(fixture.order() == "spare");
  fixture.run_until([&] { return last.learnt.read().list.has_value(); });
  CHECK(last.learnt.read().list->text == "I json /usr/lib/python3/json.py\n");
  CHECK_FALSE(fixture.has_said("no more workers"));
}

TEST_CASE("spares of the last life's Python are not taken for another one") {
  const last_life last;
  second_life fixture(last);
  const waiting_child child;
  fixture.get_ready(child);
  fixture.python = "/another/python";
  CHECK(fixture.start() != child.pid);
  CHECK(fixture.warm.waiting() == 0);
}

TEST_CASE("a list that cannot be kept or read costs a line, and nothing else") {
  last_life last;
  std::string said;
  bool is_read = false;
  SECTION("there is no room for it") {
    last.learnt.folder = last.folder.file("no-folder", "", 0600) + "/imports";
    said = "cannot save what the script imports for its next start: ";
  }
  SECTION("others may have written it") {
    std::filesystem::permissions(last.learnt.folder, std::filesystem::perms::all);
    said = "what the script imported when it last ran is not known: ";
    is_read = true;
  }
  warm_fixture fixture(last.options());
  fixture.python = last.learnt.python;
  fixture.warm.look_up(fixture.worker());
  fixture.run_until([&] { return fixture.has_said(said) || !is_read; });
  const waiting_child child;
  CHECK(fixture.start_warm(child) == child.pid);
  fixture.run_until([&] { return fixture.has_said(said); });
}

TEST_CASE(
    "where memory gets short the spares and the zygote go, and come back when there is room") {
  const changing_memory memory;
  warm_fixture fixture(memory.options());
  const waiting_child first, second;
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  const pid_t zygote = fixture.under.fake.newest();
  fixture.answer("ready 1 ");
  CHECK(fixture.order() == "spare");
  fixture.make_spare(first);
  fixture.run_until([&] { return fixture.warm.waiting() == 1; });
  memory.left->store(100 << 20);
  fixture.run_until([&] { return fixture.warm.waiting() == 0; });
  for (const pid_t pid : {zygote, first.pid})
    CHECK(fixture.under.fake[pid].signals == std::vector<int>{SIGKILL});
  CHECK(fixture.said.back() ==
        "warm: memory is short: 100 MiB of 100.0 GiB are left on this machine: no spare workers "
        "until there is room");
  const std::size_t lines = fixture.said.size();
  CHECK(fixture.start() != first.pid);
  fixture.import_modules(1);  // which are recorded, and made ahead when there is room
  memory.left->store(50ULL << 30);
  CHECK(fixture.order() == "load");
  CHECK(fixture.under.fake.newest() != zygote);
  CHECK(fixture.said.size() == lines);
  fixture.answer("ready 2 ");
  CHECK(fixture.order() == "spare");
  fixture.make_spare(second);
  fixture.run_until([&] { return fixture.warm.waiting() == 1; });
  CHECK(fixture.start() == second.pid);
}

TEST_CASE("a zygote that finds too little memory, or is killed for it, is made anew later") {
  const changing_memory memory;
  warm_fixture fixture(memory.options());
  fixture.start();
  fixture.import_modules(1);
  CHECK(fixture.order() == "load");
  const pid_t zygote = fixture.under.fake.newest();
  memory.left->store(3ULL << 29);  // neither short nor enough
  std::string why;
  SECTION("it has found so as it had made the imports") {
    fixture.answer("short 5 MiB are left, and the imports hold 400 MiB");
    why = "memory is short: 5 MiB are left, and the imports hold 400 MiB";
  }
  SECTION("it finds so as it is to make a spare") {
    fixture.answer("ready 1 ");
    CHECK(fixture.order() == "spare");
    fixture.answer("short 5 MiB are left, and the imports hold 400 MiB");
    why = "memory is short: 5 MiB are left, and the imports hold 400 MiB";
  }
  SECTION("it is killed") {
    exit_status killed;
    killed.signal = SIGKILL;
    fixture.end(zygote, killed);
    why = "the process that imports modules ahead was killed by SIGKILL";
  }
  fixture.run_until(
      [&] { return fixture.has_said("warm: " + why + ": no spare workers until there is room"); });
  memory.left->store(50ULL << 30);
  CHECK(fixture.order() == "load");
  CHECK(fixture.under.fake.newest() != zygote);
  CHECK_FALSE(fixture.has_said("no more workers are started warm"));
}
