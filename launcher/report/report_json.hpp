// A round's report as JSON, for programs; PROTOCOL.md, "Reports", lists the fields.
//
// Thread rule: pure functions except for the clock.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>

namespace ddprun::launcher {

struct report_origin {
  std::string run_id;
  std::string node;      // the node that writes it
  std::string output;    // where the whole output of the root cause is; empty: not on this node
  std::string stood;     // where its ranks stood before they were killed; empty: unknown
  std::string reached;   // the progress that they had reported: "step 1204"; empty: none
  std::string evidence;  // the folder with evidence about them; empty: there is none
};

// One line with its newline.
std::string report_json(const round_report& report, const report_origin& from);

}  // namespace ddprun::launcher
