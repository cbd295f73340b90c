// A round's report as JSON, for programs: PROTOCOL.md, "Reports", has the fields.
//
// Thread rule: pure functions, but for the clock.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>

namespace ddprun::launcher {

struct report_origin {
  std::string run_id;
  std::string node;      // that writes it
  std::string output;    // where all that the root cause has said can be read; empty: not here
  std::string stood;     // where its ranks stood before they were ended; empty: not known
  std::string reached;   // how far they had said they were: "step 1204"; empty: they said nothing
  std::string evidence;  // the folder with what is known of them; empty: there is none
};

// One line, with its newline.
std::string report_json(const round_report& report, const report_origin& from);

}  // namespace ddprun::launcher
