#include "launcher/process/worker_timers.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::workers;
using namespace std::chrono_literals;

namespace {

constexpr int kill_signal = 9;
constexpr double people_now = 1'764'000'000;

struct story {
  worker_timers timers;
  time_point now{1h};

  bool set(std::int64_t process, const std::string& scope, double seconds,
           int signal = kill_signal) {
    return timers.take({process, scope, people_now + seconds, signal}, now, people_now);
  }
  void release(std::int64_t process, const std::string& scope) {
    CHECK(timers.take({process, scope, -1, 0}, now, people_now));
  }
  // Returns "4711 a 9, 4712 b 0" for the timers that expire now.
  std::string expired() {
    std::string text;
    for (const expired_timer& one : timers.expire(now))
      text += (text.empty() ? "" : ", ") + std::to_string(one.process) + " " + one.scope + " " +
              std::to_string(one.signal);
    return text;
  }
};

}  // namespace

TEST_CASE("a timer expires when its time has passed, once") {
  story at;
  CHECK_FALSE(at.timers.next_deadline());
  at.set(1, "a", 10);
  CHECK(at.timers.next_deadline() == at.now + 10s);
  at.now += 10s - 1ms;
  CHECK(at.expired().empty());
  at.now += 1ms;
  CHECK(at.expired() == "1 a 9");
  CHECK(at.expired().empty());
  CHECK_FALSE(at.timers.next_deadline());
}

TEST_CASE("a timer that was released, or set anew, does not expire") {
  story at;
  at.set(1, "a", 10);
  at.set(1, "b", 20);
  at.set(2, "a", 30);
  at.release(1, "a");
  at.release(3, "never set");
  CHECK(at.timers.next_deadline() == at.now + 20s);
  at.now += 15s;
  at.set(1, "b", 10);
  CHECK(at.timers.next_deadline() == at.now + 10s);
  at.now += 10s;
  CHECK(at.expired() == "1 b 9");
  at.now += 5s;
  CHECK(at.expired() == "2 a 9");
}

TEST_CASE("one that acquires, releases and never again keeps nothing") {
  story at;
  for (int step = 0; step < 3; ++step) {
    at.set(1, "a", 10);
    at.release(1, "a");
  }
  CHECK(at.timers.size() == 0);
  at.now += 1h;
  CHECK(at.expired().empty());
}

TEST_CASE("of several that expire the first with a signal counts, for each process once") {
  story at;
  at.set(1, "asks for none", 1, 0);
  at.set(1, "later", 1.5);
  at.set(1, "sooner", 1.2);
  at.set(1, "not yet", 100);
  at.set(2, "two", 1.9);
  at.set(2, "one", 1.8, 15);
  at.now += 2s;
  CHECK(at.expired() == "1 sooner 9, 2 one 15");
  CHECK(at.timers.size() == 0);  // of a process that ends
}

TEST_CASE("a timer that asks for no signal leaves the others of its process") {
  story at;
  at.set(1, "none", 1, 0);
  at.set(1, "later", 2);
  at.now += 1s;
  CHECK(at.expired() == "1 none 0");
  at.now += 1s;
  CHECK(at.expired() == "1 later 9");
}

TEST_CASE("a timer that was over before it came expires at once") {
  story at;
  at.set(1, "a", -5);
  CHECK(at.expired() == "1 a 9");
}

TEST_CASE("timers that expired while the agent stood still get a moment more, once") {
  story at;
  at.set(1, "a", 10);
  at.set(2, "b", 60);
  at.now += 10s + worker_timers::stall + 1ms;
  CHECK(at.expired().empty());
  CHECK(at.timers.next_deadline() == at.now + worker_timers::moment_after_stall);
  at.now += worker_timers::moment_after_stall;
  CHECK(at.expired() == "1 a 9");
  CHECK(at.timers.next_deadline() == time_point(1h) + 60s);
}

TEST_CASE("timers far away do no harm") {
  story at;
  at.set(1, "a", 1e300);
  at.set(2, "b", -people_now + 1);
  CHECK(at.expired() == "2 b 9");
  CHECK(at.timers.next_deadline() > at.now + 24h * 365);
}

TEST_CASE("there are no more timers than the limit, and those of the dead make room") {
  story at;
  for (std::size_t process = 1; process <= worker_timers::count_max; ++process)
    CHECK(at.set(static_cast<std::int64_t>(process), "a", 10));
  CHECK_FALSE(at.set(1, "b", 10));
  CHECK(at.set(1, "a", 20));  // one that is there
  at.timers.keep_if([](std::int64_t process) { return process != 2; });
  CHECK(at.set(1, "b", 10));
  CHECK_FALSE(at.set(1, "c", 10));
  at.timers.clear();
  CHECK(at.timers.size() == 0);
}

TEST_CASE("what is told of a timer has its scope and a round number") {
  story at;
  // The request took a moment to arrive.
  at.set(1, "train.py#12", 1.9995);
  at.now += 2s;
  CHECK(describe(at.timers.expire(at.now).at(0)) == "its timer \"train.py#12\" expired after 2 s");
  CHECK(describe({1, "a\nb", 90s, 9}) == "its timer \"a b\" expired after 90 s");
  CHECK(describe({1, std::string(500, 'x'), 90s, 9}) ==
        "its timer \"" + std::string(120, 'x') + "...\" expired after 90 s");
}
