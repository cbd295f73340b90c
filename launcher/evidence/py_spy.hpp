// Where a process of Python stands, by py-spy, where that is installed: for workers that cannot be
// asked by our signal (a Python that was started as a program, or as a child of a shell), and those
// that do not answer it.
//
// It reads the memory of the process and does not stop it. The format is that of `py-spy dump` 0.3
// and 0.4: `Thread 12 (active): "MainThread"`, then a line for each frame, the innermost first:
// `    NAME (FILE:LINE)`.
//
// Thread rule: `ask` may block for `limit`, on any thread; the rest are pure functions.
#pragma once

#include "launcher/evidence/python_stack.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

// What it prints of that process, at most 32 KiB; empty where it is not installed, may not look
// (ptrace_scope), or takes longer.
std::string ask_py_spy(pid_t pid, const environment_map& environment, duration limit);

// Of the main thread, innermost first; empty: nothing is known of it.
std::vector<stack_frame> main_stack_of_py_spy(std::string_view text);

}  // namespace ddprun::launcher::evidence
