// Nodes as they were in round 7 of instance 42 when their daemon died, and the daemon that is
// started after it, which waits 10 s for them.
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
    for (std::uint32_t group_rank = 0; group_rank < count; ++group_rank) {
      fake_node& who = node("n" + std::to_string(group_rank), settings);
      assignment assigned;
      assigned.group_rank = group_rank;
      assigned.group_world_size = count;
      assigned.rank_first = 2 * group_rank;
      assigned.world_size = 2 * count;
      assigned.master_address = "10.0.0.1";
      assigned.master_port = assigned.tether_port = 4000;
      assigned.leader_node = "n0";
      who.state.instance = 42;
      who.state.round = 7;
      who.state.desired_seq = 30 + group_rank;
      who.state.phase = member_phase::running;
      who.state.assignment = assigned;
      who.state.restarts_used = 2;
      members.push_back(&who);
    }
  }
  run_settings settings;
  std::vector<fake_node*> members;
};

}  // namespace ddprun::tests
