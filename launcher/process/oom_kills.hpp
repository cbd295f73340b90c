// The kernel's count of processes that it has killed for want of memory, of the whole host or of a
// control group: a SIGKILL by it is told from one by hand.
//
// Thread rule: any thread. It reads /proc, which does not block.
#pragma once

#include <cstdint>
#include <optional>

namespace ddprun::launcher {

// Since the host has started (`oom_kill` of /proc/vmstat). None: this kernel does not count them.
std::optional<std::uint64_t> count_oom_kills();

}  // namespace ddprun::launcher
