// Reads --rdzv-conf: "key=value,key=value" with the timers of rendezvous/core/messages/settings.hpp
// by name, in seconds, and torchrun's keys.
//
// torchrun's keys: join_timeout and last_call_timeout are timers of ours; keep_alive_interval x
// keep_alive_max_attempt (5 s and 3 by default) is node_timeout; is_host says whether the daemon is
// in this process; store_type may only be tcp; timeout, read_timeout, close_timeout and
// heartbeat_timeout have no counterpart, and a note says that they are ignored.
#pragma once

#include "rendezvous/cli/usage_error.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct rendezvous_conf {
  timers timing;                   // missing ones follow from node_timeout
  std::vector<std::string> typed;  // the names of the given timers
  std::optional<bool> is_host;     // empty: not given
  std::vector<std::string> notes;
};

// `given` is the option as the user wrote it; messages start with it. Contradicting timers are an
// error that names both.
cli::parsed<rendezvous_conf> read_rendezvous_conf(std::string_view given, std::string_view text);

}  // namespace ddprun::launcher
