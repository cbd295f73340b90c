// Shared by the doctor's tests: a node made of files, and findings as lines.
#pragma once

#include "launcher/hosts/doctor/finding.hpp"
#include "tests/support/node_of_files.hpp"

#include <string>

namespace ddprun::tests::doctor {

using namespace ddprun::launcher::doctor;

using fake_node = tests::node_of_files;

// "warning: what was seen: what to do"; "nothing" if the check reports nothing.
inline std::string line_of(const findings& found, const std::string& check) {
  for (const finding& each : found) {
    if (each.check != check) continue;
    const char* const state = each.state == health::ok        ? "ok: "
                              : each.state == health::warning ? "warning: "
                                                              : "error: ";
    return state + each.seen + (each.advice.empty() ? "" : ": " + each.advice);
  }
  return "nothing";
}

}  // namespace ddprun::tests::doctor
