// What the daemon has said of a wait, alone.
#include "rendezvous/core/agent/told_wait.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;

namespace {

constexpr time_point start{1000s};

}  // namespace

TEST_CASE("what is left of a wait is said as of now, and no more when it is over") {
  told_wait wait;
  desired word;
  word.left = 600s;
  wait.hear(word, start);
  CHECK(wait.text("waiting; here: a", start) == "waiting, 10 min left; here: a");
  CHECK(wait.text("waiting; here: a", start + 570s) == "waiting, 30 s left; here: a");
  CHECK(wait.text("waiting; here: a", start + 600s) == "waiting; here: a");
}

TEST_CASE("who is missing is said until the next word, whatever that wants") {
  told_wait wait;
  desired word;
  word.gone = {"b was lost", 40s, "silent"};
  wait.hear(word, start);
  CHECK(wait.text("waiting", start + 10s) == "waiting; b was lost 50 s ago: silent");
  CHECK(wait.gone_text(start) == "; b was lost 40 s ago: silent");
  word.phase = desired_phase::run;
  wait.hear(word, start);
  CHECK(wait.gone_text(start).empty());
}

TEST_CASE("a daemon that says nothing of it is an older one") {
  told_wait wait;
  wait.hear({}, start);
  CHECK(wait.text("waiting for 1 of 2 nodes; here: a", start) ==
        "waiting for 1 of 2 nodes; here: a");
}
