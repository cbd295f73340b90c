// The fields in JSON that a report of a round has in a file and over HTTP alike (PROTOCOL.md,
// "Reports"): how its ranks ended, and what becomes of the run.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <nlohmann/json_fwd.hpp>

namespace ddprun::protocol {

// "ends", "goes_on", "exit_code" of a run that ends, "restarts_used", "restarts_forgiven",
// "restarts_max" and "text", in this order, behind what `object` has.
void add_outcome(nlohmann::ordered_json& object, const round_report& report);

}  // namespace ddprun::protocol
