// Words for a wait: how long it goes on, and which nodes are missing since when.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>

namespace ddprun {

// For a duration that goes on while it is read: whole seconds below two minutes, at least one;
// whole minutes above: "12 s", "9 min".
std::string rough_text(duration span);

// "node-b (10.0.0.2, ranks 2 and 3) was lost 40 s ago: silent for 10 s". `since`: how long ago that
// was said.
std::string sentence_of(const departure& gone, duration since = {});

// `text` with what is left after its first clause: "waiting for 1 of 2 nodes, 9 min left; here:
// ...", "..., last call for more nodes: 12 s; here: ...". Unchanged if nothing is left.
std::string with_left(std::string_view text, duration left, bool is_last_call);

}  // namespace ddprun
