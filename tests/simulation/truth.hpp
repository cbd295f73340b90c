// Which workers really are alive on which simulated host. The checkers look here, never at what the
// protocol says.
//
// Ownership: the world owns the groups and keeps them until it ends.
#pragma once

#include "tests/simulation/process.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::simulation {

class agent;

struct worker {
  bool alive = true;
  bool killed = false;         // by its agent or guardian
  bool asked_to_stop = false;  // by its agent
  bool unkillable = false;     // in D state: SIGKILL acts only when that ends
  bool is_done = false;        // would have succeeded otherwise
};

// The workers of one node in one round.
struct worker_group : std::enable_shared_from_this<worker_group> {
  std::uint64_t id = 0;
  agent* owner = nullptr;
  host_id host = 0;
  std::uint64_t boot = 0;
  session_id session;
  std::string run_id;
  std::uint64_t told_by = 0;  // the daemon on whose order it started
  instance_id instance = 0;
  round_number round = 0;
  ddprun::assignment assignment;
  std::uint32_t restarts_used = 0;
  moment started{};
  bool all_executed = false;
  std::uint32_t alive = 0;
  std::uint32_t succeeded = 0;
  // When a daemon that knew of no newer round of its instance last sent its agent an ack; kept only
  // if the agent's clock stood still.
  std::optional<moment> kept_unknowing;
  std::vector<worker> workers;

  bool only_unkillable() const {
    for (const worker& each : workers) {
      if (each.alive && !(each.unkillable && each.killed)) return false;
    }
    return true;
  }
};

}  // namespace ddprun::simulation
