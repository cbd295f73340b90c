// What `ddprun doctor` prints: lines for people, or one JSON object.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"

namespace ddprun::launcher::doctor {

// A line for each finding, its advice below it, and one that adds up.
std::string to_text(const findings& found);

// What many nodes have found out together.
struct cluster_report {
  cluster_facts facts;
  findings found;
};

// The same for what is said of all nodes, and a table of all pairs where they fit on a screen.
std::string to_text(const cluster_report& all);

// {"node", "version", "findings": [{"check", "state", "seen", "advice"}], "ok", "warnings",
// "errors"} and a line feed; `advice` is there where there is any. With `all`, what is
// said of all nodes is among the findings, with "scope": "nodes", and there are
// "nodes": [{"name", "address"}] and "pairs": [{"from", "to", "round_trip_us", "clock_ahead_us",
// "mib_per_s", "paths": [{"address", "port", "state", "words"}]}], with nodes by their index.
std::string to_json(const findings& found, const std::string& node,
                    const cluster_report* all = nullptr);

// 1 when there is an error among them, else 0.
int exit_code_of(const findings& found);

}  // namespace ddprun::launcher::doctor
