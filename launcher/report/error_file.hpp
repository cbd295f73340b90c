// What PyTorch's @record leaves of an exception in $TORCHELASTIC_ERROR_FILE: a JSON object,
// {"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "Traceback ..."}}}
// (torch/distributed/elastic/multiprocessing/errors/error_handler.py, 2.11 to 2.15), or with
// "message" a string. And what the launcher leaves in its own, where whoever has started it has set
// that variable: a scheduler reads there why the job failed.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// A larger one is not read.
inline constexpr std::size_t error_file_bytes_max = 1024 * 1024;

// As the interpreter would have printed it; empty: this is no such object.
std::string text_of_error_file(std::string_view json);

// How a run ended that failed.
struct run_end {
  std::string text;                 // the last line for the person
  std::optional<cause> root_cause;  // none: nothing in it had failed
  std::string recorded;             // the error file of that worker; empty: not here, or none
  std::int64_t unix_seconds = 0;    // now
};

// One object of JSON. The worker's own file as it is, with message.errorCode for how the process
// ended (-9 for SIGKILL), as torchrun has it. Where there is none, the same form: the sentence on
// the root cause, and as py_callstack its last words; else the last line, without errorCode.
std::string error_file_of_run(const run_end& end);

}  // namespace ddprun::launcher
