// Reads from a worker's last output why it failed.
//
// The reason is the exception that reached the interpreter, otherwise one that the program has
// printed itself, unless it continued its work after that. Whether it is a secondary failure, a
// consequence of another one, depends only on the output: it is if the first exception of its chain
// matches a secondary row of signatures.hpp, whatever followed from it. A later crash happened on
// the way out. Without an exception, a secondary line near the end decides. A worker that was
// killed from outside (SIGKILL, SIGTERM) is never secondary.
#pragma once

#include "launcher/report/python_error.hpp"
#include "launcher/report/signatures.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct failure_text {
  std::string error;                 // "ValueError: loss is NaN"; empty: no exception found
  std::vector<python_frame> frames;  // of that exception, innermost last: the user's own, a few
  const signature* known = nullptr;
  bool is_secondary = false;
};

// Uses kind, code and tail.
failure_text read_failure(const cause& value);

// For a saved log, where neither the end of the program nor the writer of later lines is known.
failure_text read_log(std::string_view text);

// The lines shown below the sentence about the cause, at most 14, without newlines. Lines that
// belong to the one above are indented.
std::vector<std::string> failure_lines(const cause& value);
std::vector<std::string> failure_lines(const failure_text& words, const std::string& tail);

}  // namespace ddprun::launcher
