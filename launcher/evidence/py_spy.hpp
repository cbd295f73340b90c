// Asks py-spy, if it is installed, where a Python process is: for workers that cannot be asked by
// our signal (a Python that was started as a program, or as a child of a shell), and those that do
// not answer it.
//
// py-spy reads the memory of the process and does not stop it. The format is that of `py-spy dump`
// 0.3 and 0.4: `Thread 12 (active): "MainThread"`, then a line for each frame, the innermost first:
// ` NAME (FILE:LINE)`.
//
// Thread rule: `ask_py_spy` may block for `limit`, on any thread; the rest are pure functions.
#pragma once

#include "launcher/evidence/python_stack.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

// Returns its output, at most 32 KiB; empty: it is not installed, has no permission (ptrace_scope),
// or takes longer.
std::string ask_py_spy(pid_t pid, const environment_map& environment, duration limit);

// The main thread's frames, innermost first; empty: they are not known.
std::vector<stack_frame> main_stack_of_py_spy(std::string_view text);

}  // namespace ddprun::launcher::evidence
