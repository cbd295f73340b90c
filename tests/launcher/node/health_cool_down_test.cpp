// A node with an intermittent fault sits out longer each time.
#include "launcher/node/health_cool_down.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

struct node {
  health_cool_down cool_down{60s};
  time_point now{};

  // One failure, and how long the checks must pass until the node may take part again.
  duration sits_out() {
    CHECK(cool_down.judge("GPU 3 is gone", now) == "GPU 3 is gone");
    for (duration passed{};; passed += 10s, now += 10s) {
      if (cool_down.judge("", now).empty()) return passed;
      REQUIRE(passed < 48h);
    }
  }
};

}  // namespace

TEST_CASE("a node that was unhealthy once is back as soon as its checks pass") {
  node one;
  CHECK(one.cool_down.judge("", one.now).empty());
  CHECK(one.sits_out() == 0s);
}

TEST_CASE("a node that becomes unhealthy again and again sits out for longer each time") {
  node one;
  CHECK(one.sits_out() == 0s);
  for (const duration each : {60s, 120s, 240s, 480s, 960s, 1920s, 1920s, 1920s}) {
    one.now += 30s;
    CHECK(one.sits_out() == each);
  }
}

TEST_CASE("after an hour without trouble a node is as any other") {
  node one;
  one.sits_out();
  CHECK(one.sits_out() == 60s);
  one.now += 1h;
  CHECK(one.sits_out() == 0s);
  CHECK(one.sits_out() == 60s);
}

TEST_CASE("what goes on is one trouble, however often it is seen") {
  node one;
  for (int look = 0; look < 5; ++look, one.now += 60s)
    one.cool_down.judge("GPU 3 is gone", one.now);
  CHECK(one.cool_down.judge("", one.now).empty());
}

TEST_CASE("trouble that is back before a node may take part again is the same time") {
  node one;
  one.sits_out();
  one.cool_down.judge("GPU 3 is gone", one.now);
  one.now += 30s;
  CHECK(one.cool_down.judge("", one.now) ==
        "GPU 3 is gone (its checks pass now, but this was time 2 within an hour: they have to pass "
        "for 60 s)");
  CHECK(one.sits_out() == 60s);  // and not 120
}
