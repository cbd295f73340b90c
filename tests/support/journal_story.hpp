// Records as an earlier daemon persisted them, and the members of their rounds.
#pragma once

#include "tests/support/run_story.hpp"

#include <optional>
#include <string>
#include <utility>

namespace ddprun::tests {

inline core::run_options keeping(std::optional<core::run_record> remembered = {}) {
  core::run_options options;
  options.persists_records = true;
  options.began = run_story::origin;
  if (remembered) options.recovery_until = run_story::origin + std::chrono::seconds(10);
  options.remembered = std::move(remembered);
  return options;
}

// A record of two nodes that were in a round when their daemon died, with one restart used.
inline core::run_record open_record() {
  core::run_record record;
  record.run_id = "story";
  record.instance = 42;
  record.rounds_reserved = 16;
  record.restarts_used = 1;
  record.nodes = 2;
  record.members = shared_list<std::string>({"a (10.0.0.1)", "b (10.0.0.2)"});
  record.gone_after = std::chrono::minutes(10);
  record.lost_after = std::chrono::minutes(10);
  return record;
}

inline core::run_record closed_record(int exit_code) {
  core::run_record record = open_record();
  record.nodes = 0;
  record.members = {};
  record.gone_after = record.lost_after = {};
  record.end = core::run_end{exit_code, "how it ended"};
  return record;
}

// A node that ran round 3 of the instance above.
inline fake_node& survivor(run_story& story, const std::string& name, std::uint32_t group_rank) {
  fake_node& who = story.node(name, nodes_of(2, 2));
  assignment assigned;
  assigned.group_rank = group_rank;
  assigned.group_world_size = 2;
  assigned.rank_first = 2 * group_rank;
  assigned.world_size = 4;
  assigned.master_address = "10.0.0.1";
  assigned.master_port = assigned.tether_port = 4000;
  assigned.leader_node = "a";
  who.state.instance = 42;
  who.state.round = 3;
  who.state.desired_seq = 30;
  who.state.phase = member_phase::running;
  who.state.assignment = assigned;
  who.state.restarts_used = 1;
  return who;
}

// A node that waited in this instance of an earlier daemon, and that returns to this one.
inline fake_node& back_from_waiting(run_story& story, const std::string& name,
                                    const run_settings& settings, instance_id instance) {
  fake_node& who = story.node(name, settings);
  who.state.instance = instance;
  who.state.desired_seq = 30;
  story.connect(who);
  return who;
}

}  // namespace ddprun::tests
