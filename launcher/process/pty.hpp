// A pty is a terminal that a worker writes to and we read, in place of a pipe.
//
// Bytes arrive as they were written, without "\r\n" for "\n", because the user's own terminal does
// that. While nobody reads, a writer blocks, as with a pipe. The end is reported as the error EIO,
// when no process has the other end open and all is read.
//
// It is not a controlling terminal: closing the worker's end sends no SIGHUP, and we have to send
// SIGWINCH.
//
// Thread rule: any thread.
#pragma once

#include "launcher/log/terminal_size.hpp"
#include "rendezvous/base/unique_fd.hpp"

namespace ddprun::launcher {

// `write` is the terminal, `read` is our end; both are close-on-exec and blocking. Errors: the
// system's; a container without /dev/ptmx has no ptys.
result<pipe_ends> make_pty(terminal_size size);

}  // namespace ddprun::launcher
