// A member story whose timers never coincide, for tests that are exact to the millisecond.
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

// The time from `story.now()` to the first effect of a kind; more than `most` if it never comes.
template <typename Effect>
duration until(agent_story& story, duration most = std::chrono::seconds(70)) {
  const time_point from = story.now();
  while (!story.did<Effect>() && story.now() <= from + most)
    story.pass(std::chrono::milliseconds(1));
  return story.now() - from;
}

}  // namespace ddprun::tests
