// How versions of ddprun treat each other. Programs that speak the same version of the agent
// protocol work together, whatever their own versions are; others do not.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun::core {

inline constexpr std::string_view same_version_advice =
    "use the same version of ddprun on every node";

// The refusal if a node and this daemon speak different versions of the agent protocol: names both,
// and what to do. Empty: they speak the same.
std::string protocol_problem(const hello& greeting, std::string_view daemon_version);

// A warning, for people on both sides, that they are different versions of ddprun that work
// together. Empty: they are the same, or one does not say what it is. `node`: whose version it is,
// "node-b".
std::string version_warning(std::string_view node, std::string_view node_version,
                            std::string_view daemon_version);

}  // namespace ddprun::core
