// The settings and failures of stories about the rules for restarts.
#pragma once

#include "tests/support/run_story.hpp"

#include <string>

namespace ddprun::tests {

// With the rules that nodes_of turns off.
inline run_settings restarting(std::uint32_t nodes_min, std::uint32_t nodes_max,
                               std::uint32_t quick_failures = 2, std::uint32_t restarts = 9) {
  run_settings settings = nodes_of(nodes_min, nodes_max, restarts);
  settings.quick_failures_max = quick_failures;
  settings.timing.backoff_max = std::chrono::seconds(30);
  settings.timing.last_call_timeout = std::chrono::seconds(1);
  return settings;
}

// The node's worker fails by itself, and all nodes stop.
inline void fail_round(run_story& story, fake_node& who, int code, const std::string& text = {}) {
  cause why = run_story::cause_of(who, cause_class::exit, code);
  why.text = text;
  who.state.causes = {why};
  story.say(who, member_phase::failed);
  story.stop_all();
}

}  // namespace ddprun::tests
