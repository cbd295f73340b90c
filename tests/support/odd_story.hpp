// A member story with timers of which no two fall on one moment, for what is to happen to the
// millisecond.
#pragma once

#include "tests/support/agent_story.hpp"

namespace ddprun::tests {

// Durations that coincide with nothing else.
inline timers odd_timers() {
  timers timing;
  timing.stop_grace = std::chrono::milliseconds(5300);
  timing.drain_grace = std::chrono::milliseconds(31700);
  timing.kill_wait = std::chrono::milliseconds(4600);
  return timing;
}

struct odd_story : agent_story {
  odd_story() {
    timing = odd_timers();
    run_as_member();
    forget();
  }
};

// The moment of the first effect of a kind, from `story.now()`; more than a minute: never.
template <typename Effect>
duration until(agent_story& story, duration most = std::chrono::seconds(70)) {
  const time_point from = story.now();
  while (!story.did<Effect>() && story.now() <= from + most)
    story.pass(std::chrono::milliseconds(1));
  return story.now() - from;
}

}  // namespace ddprun::tests
