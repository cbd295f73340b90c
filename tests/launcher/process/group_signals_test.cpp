// Which signals were sent to every process of a node.
#include "launcher/process/group_signals.hpp"

#include "tests/support/catch.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

struct group_signal_story {
  // The guardian receives a signal at that time; the agent receives one and judges it in time.
  void guardian(std::chrono::microseconds at, int signal = SIGUSR1) {
    known.guardian_heard(signal, begin + at);
  }
  bool agent(std::chrono::microseconds at, int signal = SIGUSR1) {
    return known.take(signal, begin + at, begin + at + guardian_answer_limit);
  }
  const time_point begin = time_point() + 1h;
  group_signals known;
};

}  // namespace

TEST_CASE("a signal that the guardian hears, too, was sent to all") {
  group_signal_story story;
  SECTION("before the agent") {
    story.guardian(0ms);
    CHECK(story.agent(900ms));
  }
  SECTION("after it") {
    story.guardian(190ms);
    CHECK(story.agent(0ms));
  }
  CHECK_FALSE(story.agent(1500ms));
}

TEST_CASE("a signal of which the guardian knows nothing is the agent's own") {
  group_signal_story story;
  CHECK_FALSE(story.agent(0ms));
  story.guardian(1s, SIGUSR2);
  CHECK_FALSE(story.agent(1s));
  CHECK_FALSE(story.agent(2100ms, SIGUSR2));  // too long after it
}

TEST_CASE("what the agent hears until the first is judged is judged with it") {
  group_signal_story story;
  // The guardian receives the two as one.
  story.guardian(50ms);
  CHECK(story.agent(0ms));
  CHECK(story.agent(100ms));
  CHECK_FALSE(story.agent(300ms));
}

TEST_CASE("what the agent has heard as one leaves no word behind") {
  group_signal_story story;
  story.guardian(0ms);
  story.guardian(40ms);
  CHECK(story.agent(45ms));
  CHECK_FALSE(story.agent(500ms));
}

TEST_CASE("a second signal to all that the guardian hears right before the first is judged") {
  group_signal_story story;
  story.guardian(1ms);
  story.guardian(199900us);
  CHECK(story.agent(0ms));  // judged at 200 ms
  SECTION("is known when the agent hears it right after that") {
    CHECK(story.agent(200100us));
    CHECK_FALSE(story.agent(700ms));
  }
  SECTION("is known when the agent has heard it before") {
    CHECK(story.agent(199950us));
    CHECK_FALSE(story.agent(700ms));
  }
}

TEST_CASE("a guardian that alone is signalled again and again is remembered within bounds") {
  group_signal_story story;
  for (int count = 0; count < 1000; ++count)
    story.guardian(std::chrono::milliseconds(count));
  CHECK(story.agent(1s));
  CHECK_FALSE(story.agent(1500ms));
}
