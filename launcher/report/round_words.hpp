// The line with which a round begins, and the command of its workers.
//
//   round 2 starts: ranks 0-1 on node-a (10.0.0.1), 2-3 on node-b (10.0.0.2); restart 1 of 3
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

// `members` is the daemon's word of who is where; empty, from an older one: counts stand for it.
// `restart` says which one it is (core::restart_text); empty: nothing was restarted yet.
std::string round_starts_text(round_number round, const assignment& assigned,
                              const std::string& members, const std::string& restart);

// What this node has heard of restarts, so that a round that follows on a drain, a join or a lost
// node is called none.
class restarts_heard {
 public:
  // Which restart the round is that begins; empty: none. So many were charged, of them `forgiven`
  // count no longer.
  std::string text(instance_id instance, std::uint32_t used, std::uint32_t forgiven,
                   std::uint32_t most);

 private:
  instance_id instance_ = 0;
  std::uint32_t used_ = 0;
};

// As a shell takes it, at most some 1000 bytes.
std::string command_text(const std::vector<std::string>& argv);

}  // namespace ddprun::launcher
