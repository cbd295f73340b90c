// Sentences for people: what this node waits for, and why it gave up.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace ddprun::core {

struct agent_options;
class daemon_link;
class desired_state;
class local_round;
class shutdown_state;
class told_wait;

// How a node that is without a daemon looks for one: where, and until when. Borrows the link and
// the endpoints for the call.
struct daemon_search {
  const daemon_link& link;
  const std::string& endpoints;           // all of them: "a:29400 or b:29400"
  std::optional<time_point> workers_end;  // none: no worker lives on without a daemon
  std::optional<time_point> gives_up;     // none: the search is not limited
  machine_time now;
  time_point real_now;
};

// Says at once how long the wait is and what follows, because no other node can say it. `may_host`:
// this agent opens a daemon itself when none has come within reconnect_grace.
std::string lost_daemon_text(const daemon_search& search, const timers& timing, bool may_host);
std::string unreachable_text(const daemon_link& daemon, const local_round& local,
                             const std::string& endpoints, machine_time now);
std::string tether_failure_text(const daemon_link& daemon, const local_round& local,
                                const timers& timing);
// `limit`: for how long no heartbeat was acknowledged.
std::string isolation_text(const daemon_link& daemon, const local_round& local,
                           const std::string& endpoints, duration limit);
std::string stood_still_text(const timers& timing);
std::string orphan_text(const daemon_link& daemon, const local_round& local,
                        const std::string& endpoints, const timers& timing,
                        const machine_clock& clock);
// Which run waits, and where: "run job04 at 127.0.0.1:29514 (daemon in this process): ".
std::string where_text(const agent_options& options, std::size_t endpoint_index);
// For a node without workers that a user has ended. `last_round`: the newest that began here; 0:
// none.
std::string interrupted_text(const daemon_link& daemon, const told_wait& wait,
                             round_number last_round, const std::string& endpoints, time_point now,
                             int signal);
std::string why_text(const agent_options& options, std::size_t endpoint_index,
                     const desired_state& newest, const told_wait& wait, const local_round& local,
                     const shutdown_state& shutdown, const daemon_search& search);

}  // namespace ddprun::core
