// How an agent on another host has ended, as it reports to its head: "143 drained". The code alone
// does not say whether the run is over, because a run may fail with any code.
#pragma once

#include "rendezvous/core/agent/agent_machine.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::ssh {

struct agent_end {
  int code = 0;
  core::leave_reason why = core::leave_reason::run_over;
  bool operator==(const agent_end&) const = default;
};

// "0 over", "143 drained", "78 refused", "69 unmet".
std::string agent_end_text(const agent_end& end);
// Empty: malformed.
std::optional<agent_end> read_agent_end(std::string_view text);

}  // namespace ddprun::launcher::ssh
