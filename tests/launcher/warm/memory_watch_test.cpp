// When memory is short, and when there is room again.
#include "launcher/warm/memory_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <boost/asio/io_context.hpp>

#include <memory>
#include <mutex>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace ddprun::launcher::warm;

namespace {

constexpr std::uint64_t mib = 1024 * 1024;
constexpr std::uint64_t gib = 1024 * mib;

memory_level machine_with(std::uint64_t left) {
  return {"this machine", left, 100 * gib, 0};
}

memory_level job_with(std::uint64_t left) {
  return {"cgroup /job", left, 2 * gib, 0};
}

// What the watch reads on its other thread.
struct memory {
  memory_levels read() const {
    const std::lock_guard lock(mutex);
    return levels;
  }
  void set(memory_levels now) {
    const std::lock_guard lock(mutex);
    levels = std::move(now);
  }

  mutable std::mutex mutex;
  memory_levels levels{machine_with(50 * gib)};
};

struct watch_fixture {
  watch_fixture() : watch(io.get_executor(), options(), events()) {}

  memory_watch::options options() const {
    memory_watch::options values;
    values.read = [seen = seen] { return seen->read(); };
    values.pause = values.pause_near = std::chrono::milliseconds(1);
    values.rest = std::chrono::milliseconds(1);
    return values;
  }

  memory_watch::events events() {
    memory_watch::events called;
    called.is_wanted = [this] {
      ++looks;
      return is_wanted;
    };
    called.is_short = [this](const std::string& why) {
      said.push_back(why);
      watch.await_room_for(gib);
    };
    called.has_room = [this] { said.push_back("room"); };
    return called;
  }

  void run_until_said(std::size_t count) {
    REQUIRE(tests::run_until(io, [&] { return said.size() >= count; }));
    CHECK(said.size() == count);
  }

  boost::asio::io_context io;
  std::shared_ptr<memory> seen = std::make_shared<memory>();
  std::vector<std::string> said;
  bool is_wanted = true;
  int looks = 0;
  memory_watch watch;
};

}  // namespace

TEST_CASE("a twentieth of the memory is kept free, within bounds") {
  CHECK(memory_reserve(10 * mib) == 64 * mib);
  CHECK(memory_reserve(4000 * mib) == 200 * mib);
  CHECK(memory_reserve(1000 * gib) == gib);
}

TEST_CASE("memory is short where the machine or a cgroup has less than its reserve") {
  CHECK(shortage_of({}).empty());
  CHECK(shortage_of({machine_with(gib), job_with(110 * mib)}).empty());
  CHECK(shortage_of({machine_with(1000 * mib), job_with(gib)}) ==
        "1000 MiB of 100.0 GiB are left on this machine");
  CHECK(shortage_of({machine_with(gib), job_with(80 * mib)}) ==
        "80 MiB of 2.0 GiB are left in cgroup /job");
}

TEST_CASE("memory is short where all processes wait for it") {
  memory_level job = job_with(gib);
  job.stalled_percent = 9.5;
  CHECK(shortage_of({job}).empty());
  CHECK_FALSE(have_room_for({job}, 0));  // not so soon again
  job.stalled_percent = 23.6;
  CHECK(shortage_of({job}) == "all processes in cgroup /job have waited for it 23 % of the time");
}

TEST_CASE("there is room where twice the reserve and what is asked for are left everywhere") {
  CHECK(have_room_for({}, gib));
  CHECK(have_room_for({machine_with(3 * gib)}, gib));
  CHECK_FALSE(have_room_for({machine_with(3 * gib - 1)}, gib));
  CHECK_FALSE(have_room_for({machine_with(3 * gib), job_with(gib)}, gib));
}

TEST_CASE("a shortage is told once, and then that there is room again") {
  watch_fixture fixture;
  fixture.watch.start();
  fixture.seen->set({machine_with(10 * mib)});
  fixture.run_until_said(1);
  CHECK(fixture.watch.is_short());
  CHECK(fixture.said[0] == "10 MiB of 100.0 GiB are left on this machine");
  fixture.seen->set({machine_with(3 * gib)});
  fixture.run_until_said(2);
  CHECK(fixture.said[1] == "room");
  CHECK_FALSE(fixture.watch.is_short());
  fixture.seen->set({job_with(10 * mib)});
  fixture.run_until_said(3);
}

TEST_CASE("a shortage that another has found ends as any other") {
  watch_fixture fixture;
  fixture.is_wanted = false;
  fixture.watch.await_room_for(60 * gib);
  CHECK(fixture.watch.is_short());
  fixture.seen->set({machine_with(70 * gib)});
  fixture.run_until_said(1);
  CHECK(fixture.said[0] == "room");
}

TEST_CASE("nothing is looked at where nothing could be ended") {
  watch_fixture fixture;
  fixture.is_wanted = false;
  fixture.seen->set({machine_with(0)});
  fixture.watch.start();
  fixture.io.run();  // it has nothing more to do
  CHECK(fixture.looks == 1);
  CHECK(fixture.said.empty());
  fixture.is_wanted = true;
  fixture.watch.start();
  fixture.io.restart();
  fixture.run_until_said(1);
}
