// What a worker's last words say of why it failed.
//
// Whether that is the effect of another failure is said by the words alone: an exception of Python
// that a row of signatures.hpp knows as one, whatever was made of it later in its chain; without
// any exception, any line that is known as one, of a worker that was not ended by a fault of its
// own.
//
// Thread rule: pure functions.
#pragma once

#include "launcher/report/python_error.hpp"
#include "launcher/report/signatures.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

struct failure_words {
  std::string error;                 // "ValueError: loss is NaN"; empty: none is there
  std::vector<python_frame> frames;  // of that, innermost last: the user's own, a few
  const signature* known = nullptr;
  bool is_effect = false;
};

// From kind, code and tail.
failure_words read_failure(const cause& value);

// What a person is shown below the sentence about it, at most 14 lines without newlines. What
// belongs to the line above it is indented.
std::vector<std::string> failure_lines(const cause& value);

}  // namespace ddprun::launcher
