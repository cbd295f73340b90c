// The guardian's own process: waits at the death pipe and, when the agent dies without a farewell,
// kills every worker group that it was told of. It does the same, and goes on waiting, when the
// agent stands still (SIGSTOP, a debugger, a page on a disk that hangs) until the moment up to
// which it said last that its workers may live; life_limit.hpp has the rule.
//
// It is a fork of ddprun made before any thread or, when a first one was killed, ddprun executed
// again with `guardian_argument`. It has its own session and ignores every signal that can be
// ignored, but for SIGUSR1 and SIGUSR2: it tells the agent that it was sent them. As neither its
// session, nor its name or its command line, is that of ddprun, it is sent a signal when each
// process of the job is, and its workers too; a person who signals ddprun by name or by group
// reaches neither. It holds no descriptor of the agent but standard error, opens nothing while it
// watches, and is locked in memory where that is allowed.
//
// Order at the agent's death: SIGKILL to each group; wait until no process of them lives; only then
// the word to the daemon, because the daemon takes it as proof that it may start the next round.
// Where processes cannot be killed within `guardian_limit`, no word is sent. The word is tried
// until the daemon has taken it, for `guardian_word_limit` at most; where a daemon that is gone has
// no successor (tell_unless_refused), only until it has been refused for `guardian_refused_limit`:
// an engine that ends a whole job waits for all of its processes.
//
// Thread rule: runs in a process with one thread.
#pragma once

#include <chrono>

namespace ddprun::launcher {

inline constexpr std::chrono::milliseconds guardian_limit{2000};
inline constexpr std::chrono::milliseconds guardian_word_limit{10'000};
inline constexpr std::chrono::milliseconds guardian_refused_limit{300};
inline constexpr std::chrono::milliseconds guardian_word_try{2000};  // of one try

// What the system calls the process, at most 15 bytes; `pkill ddprun` must not find it.
inline constexpr const char* guardian_name = "ddp-guardian";

// The hidden first argument of ddprun that makes it a guardian with the death pipe as its standard
// input, and the pipe for its answers as its standard output.
inline constexpr const char* guardian_argument = "--ddprun-guardian";

// Never returns. `death_pipe` is a read end, `answers` a write end.
[[noreturn]] void run_guardian(int death_pipe, int answers);

// To be called first in main: becomes the guardian when the arguments say so, else does nothing.
void become_guardian_if_asked(int argc, char** argv);

}  // namespace ddprun::launcher
