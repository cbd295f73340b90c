// The guardian's own process. It waits at the death pipe, and if the agent dies without a farewell,
// kills every worker group that it knows. It also kills them, and goes on waiting, if the agent
// stands still (SIGSTOP, a debugger, a page on a disk that hangs) past the time that it last gave
// for its workers; life_limit.hpp has the rule.
//
// It is a fork of ddprun, made before any thread exists, or, after the first one was killed, ddprun
// executed again with `guardian_argument`. It has its own session and ignores all signals that can
// be ignored, except SIGUSR1 and SIGUSR2, which it reports to the agent. Its session, name and
// command line differ from ddprun's. So it gets a signal only if every process of the job does; a
// user who signals ddprun by name or by group reaches neither the guardian nor the workers. It
// holds no descriptor of the agent except standard error, opens nothing while it watches, and is
// locked in memory if that is allowed.
//
// Order at the agent's death: SIGKILL to each group; wait until none of their processes is alive;
// only then send the message to the daemon, because the daemon takes it as proof that it may start
// the next round. If processes cannot be killed within `guardian_limit`, no message is sent.
// Sending is tried until the daemon has read the message, for `guardian_word_limit` at most. If a
// dead daemon has no successor (tell_unless_refused), sending ends once the connection has been
// refused for `guardian_refused_limit`, because a batch system that ends a job waits for all of its
// processes.
//
// Thread rule: runs in a process with one thread.
#pragma once

#include <chrono>

namespace ddprun::launcher {

inline constexpr std::chrono::milliseconds guardian_limit{2000};
inline constexpr std::chrono::milliseconds guardian_word_limit{10'000};
inline constexpr std::chrono::milliseconds guardian_refused_limit{300};
inline constexpr std::chrono::milliseconds guardian_word_try{2000};  // of one try

// The kernel's name of the process, at most 15 bytes; `pkill ddprun` must not match it.
inline constexpr const char* guardian_name = "ddp-guardian";

// The hidden first argument that turns ddprun into a guardian, with the death pipe as its standard
// input and the pipe for its reports as its standard output.
inline constexpr const char* guardian_argument = "--ddprun-guardian";

// Never returns. `death_pipe` is a read end, `answers` a write end.
[[noreturn]] void run_guardian(int death_pipe, int answers);

// Call it first in main: becomes the guardian if the arguments say so, else does nothing.
void become_guardian_if_asked(int argc, char** argv);

}  // namespace ddprun::launcher
