// A lifeline ties an agent that a head has started to that head: it reads what comes over standard
// input as long as there is a head.
//
//   "beat\n"        the head is there; at least once in lifeline_silence
//   "signal N\n"    as if the signal had come to this agent; one that comes when the agent does not
//                   listen any more ends nothing, for it has yet to say how it has ended
//   the end         the head, or the connection, is gone
//
// When the head is gone, or silent for too long (a network that is cut tells nobody), this process
// gets SIGTERM, so that its workers end in order; when its patience is over it gets SIGKILL, and
// its guardian does the rest.
//
// Thread rule: made by the main thread, before the agent listens to signals with Boost.Asio; reads
// on a thread of its own, which lives as long as the process.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <functional>

namespace ddprun::launcher::ssh {

inline constexpr std::chrono::seconds lifeline_interval{5};
inline constexpr std::chrono::seconds lifeline_silence{60};

// From SIGTERM to SIGKILL; asked on the lifeline's thread, once the head is gone.
using leaving_patience = std::function<std::chrono::milliseconds()>;

void hold_lifeline(unique_fd from_head, leaving_patience patience);

}  // namespace ddprun::launcher::ssh
