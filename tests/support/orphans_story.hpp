// Nodes as they were in round 7 of instance 42 when their daemon died, and the daemon that is
// started after it: it waits 10 s for them.
//
// Thread rule: one thread.
#pragma once

#include "tests/support/run_story.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::tests {

inline core::run_options restarted() {
  core::run_options options;
  options.recovery_until = run_story::origin + std::chrono::seconds(10);
  return options;
}

struct orphans_story : run_story {
  explicit orphans_story(std::uint32_t count, run_settings with = nodes_of(1, 4))
      : run_story(restarted()), settings(with) {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      fake_node& who = node("n" + std::to_string(slot), settings);
      assignment place;
      place.slot = slot;
      place.group_world_size = count;
      place.rank_first = 2 * slot;
      place.world_size = 2 * count;
      place.master_address = "10.0.0.1";
      place.master_port = place.tether_port = 4000;
      place.leader_node = "n0";
      who.state.instance = 42;
      who.state.round = 7;
      who.state.desired_seq = 30 + slot;
      who.state.phase = member_phase::running;
      who.state.place = place;
      who.state.restarts_used = 2;
      members.push_back(&who);
    }
  }
  run_settings settings;
  std::vector<fake_node*> members;
};

}  // namespace ddprun::tests
