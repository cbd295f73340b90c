// What `ddprun doctor` prints: lines for people, or one JSON object.
//
// Thread rule: pure functions.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"

namespace ddprun::launcher::doctor {

// A line for each finding, its advice below it, and one that adds up.
std::string to_text(const findings& found);

// {"node", "version", "findings": [{"check", "state", "seen", "advice"}], "ok", "warnings",
// "errors"} and a line feed; `advice` is there where there is any.
std::string to_json(const findings& found, const std::string& node);

// 1 when there is an error among them, else 0.
int exit_code_of(const findings& found);

}  // namespace ddprun::launcher::doctor
