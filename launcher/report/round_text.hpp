// The line at the start of a round, and the command of its workers.
//
//   round 2 starts: ranks 0-1 on node-a (10.0.0.1), 2-3 on node-b (10.0.0.2); restart 1 of 3
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher {

// `members` is the daemon's text of which ranks are where; if it is empty, from an older daemon,
// counts are shown instead. `restart` says which restart this is (core::restart_text); empty: none.
std::string round_starts_text(round_number round, const assignment& assigned,
                              const std::string& members, const std::string& restart);

// Remembers which restarts this node knows of, so that a round after a drain, a join or a lost node
// is not called a restart.
class restarts_heard {
 public:
  // Which restart the round is that begins; empty: none. `used` were charged, of which `forgiven`
  // no longer count.
  std::string text(instance_id instance, std::uint32_t used, std::uint32_t forgiven,
                   std::uint32_t most);

 private:
  instance_id instance_ = 0;
  std::uint32_t used_ = 0;
};

// The command as a shell accepts it, at most some 1000 bytes.
std::string command_text(const std::vector<std::string>& argv);

}  // namespace ddprun::launcher
