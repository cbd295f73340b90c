// A pty is a terminal that a worker writes to and we read, in place of a pipe.
//
// Bytes come as they were written (no "\r\n" for "\n": the person's own terminal does that). While
// nobody reads, a writer waits, as with a pipe. Its end is an error, EIO, and comes when nobody has
// the other end open any more and all is read.
//
// It is nobody's controlling terminal: the end of the worker hangs up nothing, and SIGWINCH is ours
// to send.
//
// Thread rule: any thread.
#pragma once

#include "launcher/log/terminal_size.hpp"
#include "rendezvous/base/unique_fd.hpp"

namespace ddprun::launcher {

// `write` is the terminal, `read` our end of it; both close-on-exec and blocking. Errors: the
// system's; there may be no ptys at all (a container without /dev/ptmx).
result<pipe_ends> make_pty(terminal_size size);

}  // namespace ddprun::launcher
