// What a worker's last words say of why it failed.
//
// The reason of an end is the exception that reached the interpreter, else one that the program has
// printed itself; but none after which it has gone on with its work. Whether it is a secondary
// failure, a consequence of another one, depends on the words alone: the first of its chain matches
// a row of signatures.hpp that is secondary, whatever was made of it later. A crash after that
// happened on the way out. Without any exception, a secondary line near the end decides. A worker
// that was ended from outside (SIGKILL, SIGTERM) is never secondary.
#pragma once

#include "launcher/report/python_error.hpp"
#include "launcher/report/signatures.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

struct failure_words {
  std::string error;                 // "ValueError: loss is NaN"; empty: none is there
  std::vector<python_frame> frames;  // of that, innermost last: the user's own, a few
  const signature* known = nullptr;
  bool is_secondary = false;
};

// From kind, code and tail.
failure_words read_failure(const cause& value);

// From a saved log, of which it is not known how the program ended, nor who wrote behind it.
failure_words read_log(std::string_view text);

// What a person is shown below the sentence about it, at most 14 lines without newlines. What
// belongs to the line above it is indented.
std::vector<std::string> failure_lines(const cause& value);
std::vector<std::string> failure_lines(const failure_words& words, const std::string& tail);

}  // namespace ddprun::launcher
