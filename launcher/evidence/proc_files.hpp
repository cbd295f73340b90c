// Reads what /proc says of a process. Only files that need nothing of the process itself, whose
// memory may be locked while it is stuck in the kernel.
//
// Thread rule: any thread; not the main one, as a busy system may let a reader wait.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

std::string proc_path(pid_t pid, const std::string& name);

// At most 16 KiB of it; empty where it cannot be read.
std::string text_of_file(const std::string& path);

// The names in a folder that are numbers, in its order, at most so many.
std::vector<std::string> numbers_in(const std::string& folder, std::size_t most);

struct process_usage {
  char state = '?';              // '?': there is no such process
  unsigned long long ticks = 0;  // of processors, by all its threads
  unsigned long long bytes = 0;  // read and written
};

process_usage usage_of(pid_t pid);
// How often its main thread has gone to sleep by itself; none: it is not told.
std::optional<unsigned long long> sleeps_of(pid_t pid);
// Without the bytes, which the kernel does not tell of a process that hangs as it executes another
// program: whoever asks hangs, too.
process_usage processor_usage_of(pid_t pid);

}  // namespace ddprun::launcher::evidence
