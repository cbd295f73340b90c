// The error file that PyTorch's @record writes for an exception ($TORCHELASTIC_ERROR_FILE): a JSON
// object, {"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "Traceback
// ..."}}} (torch/distributed/elastic/multiprocessing/errors/error_handler.py, 2.11 to 2.15), or
// with a string as "message". The launcher writes one too, if that variable was set for it: a
// scheduler reads there why the job failed.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// Larger files are not read.
inline constexpr std::size_t error_file_bytes_max = 1024 * 1024;

// The exception as the interpreter would have printed it; empty: not such an object.
std::string text_of_error_file(std::string_view json);

// The end of a failed run.
struct run_end {
  std::string text;                 // the last line for the user
  std::optional<cause> root_cause;  // empty: nothing in it has failed
  std::string recorded;             // that worker's error file; empty: there is none here
  std::int64_t unix_seconds = 0;    // now
};

// Makes one JSON object: the worker's own file with message.errorCode set to how the process ended
// (-9 for SIGKILL), as torchrun does. Without such a file, the same form with the sentence about
// the root cause, and its last output as py_callstack; without a root cause, the last line and no
// errorCode.
std::string error_file_of_run(const run_end& end);

}  // namespace ddprun::launcher
