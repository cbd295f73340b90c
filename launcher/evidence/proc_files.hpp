// Reads what /proc says of a process. It reads only files that do not lock the process's memory
// map, because a process that is stuck in the kernel may hold that lock.
//
// Thread rule: any thread but the main one, because a read may block on a busy system.
#pragma once

#include "launcher/evidence/kernel_wait.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

std::string proc_path(pid_t pid, const std::string& name);

// Returns at most 16 KiB; empty: it cannot be read.
std::string text_of_file(const std::string& path);

// The entries of a folder that are numbers, in the folder's order, at most `most`.
std::vector<std::string> numbers_in(const std::string& folder, std::size_t most);

struct process_usage {
  char state = '?';                    // '?': there is no such process
  unsigned long long ticks = 0;        // of processors, by all its threads
  unsigned long long bytes = 0;        // read and written
  std::optional<kernel_wait> waits{};  // in state D
};

process_usage usage_of(pid_t pid);
// The voluntary context switches of its main thread; none: they are not available.
std::optional<unsigned long long> sleeps_of(pid_t pid);
// The processor time of its threads of this name (at most 15 bytes, as the kernel has it).
unsigned long long ticks_of_threads(pid_t pid, std::string_view name);
// Without the wait, and without the bytes, which the kernel does not tell of a process that hangs
// as it executes another program: whoever asks hangs, too.
process_usage processor_usage_of(pid_t pid);

}  // namespace ddprun::launcher::evidence
