// Why the launcher stops this worker, as it says before it sends the signal. SIGTERM alone does not
// say whether the other ranks still come to the collectives of this step: they do in an ordinary
// stop, and do not if one of them has failed.
//
// Nothing is known under another launcher, and of a SIGTERM that somebody else has sent.
//
// Thread rule: any thread. A call opens and reads a small memory file, which DDPRUN_STOP names.
// Errors: none.
#pragma once

#include "rendezvous/base/time.hpp"

#include <optional>
#include <string_view>

namespace ddprun::worker {

struct stop_word {
  bool is_ordinary = false;  // no rank of the round was known to be lost when it was written
  time_point killed_at{};    // at the earliest
  bool operator==(const stop_word&) const = default;
};

// None: this worker is not being stopped, or it is not known why.
std::optional<stop_word> read_stop_word();

// None: the text has another form.
std::optional<stop_word> stop_word_in(std::string_view text);

}  // namespace ddprun::worker
