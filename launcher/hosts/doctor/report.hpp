// The output of `ddprun doctor`: lines for people, or one JSON object.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

// A line for each finding, its advice below it, and a total.
std::string to_text(const findings& found);

// What several nodes have found out together.
struct cluster_report {
  cluster_facts facts;
  findings found;
};

// The same for findings about all nodes, with a table of all pairs if it fits on a screen.
std::string to_text(const cluster_report& all);

// {"node", "version", "findings": [{"check", "state", "seen", "advice"}], "ok", "warnings",
// "errors"} and a line feed; `advice` may be missing. With `all`, findings about all nodes are
// included with "scope": "nodes", and there are "nodes": [{"name", "address"}] and "pairs":
// [{"from", "to", "round_trip_us", "clock_ahead_us", "mib_per_s", "paths": [{"address", "port",
// "state", "words"}]}], with nodes by index.
std::string to_json(const findings& found, const std::string& node,
                    const cluster_report* all = nullptr);

// Returns 1 if there is an error among them, otherwise 0.
int exit_code_of(const findings& found);

}  // namespace ddprun::launcher::doctor
