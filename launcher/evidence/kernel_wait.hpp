// A wait of a process in the kernel that no signal but SIGKILL ends, and often not even that (state
// D): for a disk or a file server, for example.
//
// A process that writes through a slow disk waits many times, and each wait is another sleep. Two
// looks that find the same one, as the kernel's own watch for hung tasks has it, find a process
// that has done nothing in between.
//
// Thread rule: any thread, not the main one. `kernel_wait_of` reads two small files of /proc that
// need nothing of the process itself; `file_waited_for` may hang where the process does.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

struct kernel_wait {
  std::string channel;  // the kernel's function in which it waits; empty: not told
  // How often its main thread has gone to sleep, up to this wait; none: not told.
  std::optional<unsigned long long> sleeps;
  bool operator==(const kernel_wait&) const = default;
};

// To be asked of a process that was just seen in state D.
kernel_wait kernel_wait_of(pid_t pid);

// The file for which its main thread waits: the one that is open, or the path that it has named;
// empty: /proc does not tell.
std::string file_waited_for(pid_t pid);

}  // namespace ddprun::launcher::evidence
