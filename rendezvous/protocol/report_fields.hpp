// The JSON fields that a report of a round has both in a file and over HTTP (PROTOCOL.md,
// "Reports"): how its ranks ended, and what happens to the run.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <nlohmann/json_fwd.hpp>

namespace ddprun::protocol {

// Appends "ends", "goes_on", "exit_code" (if the run ends), "restarts_used", "restarts_forgiven",
// "restarts_max" and "text", in this order.
void add_outcome(nlohmann::ordered_json& object, const round_report& report);

}  // namespace ddprun::protocol
