// A lifeline ties an agent to the head that has started it. It reads from standard input as long as
// there is a head:
//
//   "beat\n"        the head is there; at least once in lifeline_silence
//   "signal N\n"    this agent gets the signal. If it no longer listens to signals, it ignores it:
//                   it has yet to report how it ended
//   the end         the head, or the connection, is gone
//
// If the head is gone, or silent for too long (nobody is told when a network is cut), this process
// gets SIGTERM, so that its workers end in order. When its patience is over it gets SIGKILL, and
// its guardian does the rest.
//
// Thread rule: created by the main thread, before the agent listens to signals with Boost.Asio;
// reads on a thread of its own, which lives as long as the process.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <functional>

namespace ddprun::launcher::ssh {

inline constexpr std::chrono::seconds lifeline_interval{5};
inline constexpr std::chrono::seconds lifeline_silence{60};

// The time from SIGTERM to SIGKILL. Called on the lifeline's thread once the head is gone.
using leaving_patience = std::function<std::chrono::milliseconds()>;

void hold_lifeline(unique_fd from_head, leaving_patience patience);

}  // namespace ddprun::launcher::ssh
