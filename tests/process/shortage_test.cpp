// A system that has no room for another process at the moment.
#include "launcher/process/worker_group.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/process_fixture.hpp"

#include <chrono>
#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::no_descriptors;

namespace {

// Waits however long the test takes to give descriptors back.
worker_group::options patient() {
  worker_group::options options;
  options.shortage_limit = std::chrono::hours(1);
  return options;
}

}  // namespace

TEST_CASE("without descriptors a worker is tried again, and starts when there are some") {
  process_fixture fixture;
  no_descriptors none;
  fixture.start_group({fixture.shell("echo one", 0, "[a:0] "), fixture.shell("exit 3", 1, "")},
                      patient());
  fixture.run_until([&] { return !fixture.shortages.empty(); });
  CHECK(fixture.shortages.at(0).error == EMFILE);
  CHECK(fixture.group->live().empty());
  none.give_all_back();
  fixture.run_until([&] { return fixture.all_ended; });
  CHECK(fixture.all_started);
  CHECK(fixture.shortages.size() == 1);
  CHECK(!fixture.failure);
  CHECK(fixture.ends.at(0).status().success());
  CHECK(fixture.ends.at(1).status().code == 3);
  CHECK(fixture.output() == "[a:0] one\n");
}

TEST_CASE("the second of two workers is tried again while the first one runs") {
  process_fixture fixture;
  no_descriptors none;
  none.give_back(9);  // two pipes, the report and the handle of one
  fixture.start_group({fixture.shell("echo up; sleep 1000", 0, ""), fixture.shell("", 1, "")},
                      patient());
  fixture.run_until([&] { return !fixture.shortages.empty(); });
  CHECK(fixture.group->live().size() == 1);
  none.give_all_back();
  fixture.run_until([&] { return fixture.ends.count(1) == 1; });
  CHECK(fixture.all_started);
  fixture.group->kill();
  fixture.run_until([&] { return fixture.all_ended; });
}

TEST_CASE("descriptors that never come are a failure, after one word and the limit") {
  process_fixture fixture;
  no_descriptors none;
  worker_group::options options;
  options.shortage_limit = std::chrono::milliseconds(300);
  const auto before = std::chrono::steady_clock::now();
  const auto ends =
      fixture.run_group({fixture.shell("", 0, ""), fixture.shell("", 1, "")}, options);
  CHECK(std::chrono::steady_clock::now() - before >= options.shortage_limit);
  CHECK(ends.empty());
  CHECK(fixture.shortages.size() == 1);
  REQUIRE(fixture.failure);
  CHECK(fixture.failure->describe() ==
        "cannot start sh: Too many open files; raise the limit of open files (ulimit -Hn) "
        "(stage: descriptors)");
  CHECK(fixture.not_started == std::vector<std::uint32_t>{1});
}

TEST_CASE("a stop ends the wait for descriptors at once, and so does the group's end") {
  process_fixture fixture;
  no_descriptors none;
  fixture.start_group({fixture.shell("", 0, ""), fixture.shell("", 1, "")}, patient());
  fixture.run_until([&] { return !fixture.shortages.empty(); });
  SECTION("stop") {
    fixture.group->signal(SIGTERM);
    fixture.run_until([&] { return fixture.all_ended; });
    CHECK(fixture.not_started == std::vector<std::uint32_t>{0, 1});
  }
  SECTION("end") {
    fixture.group.reset();
    none.give_all_back();
    fixture.io.run();  // nothing is left to do
    CHECK(!fixture.all_started);
  }
}
