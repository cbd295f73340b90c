// Decides by age whether a record still counts: how long ago its daemon was last alive.
//
// A record counts as long as nodes of its run may live or come back, and for an hour at least, for
// a user who starts the same command again. Within one boot of the host its age is known from the
// boot clock, which cannot be set. After a reboot there is only the time of day, and a job that is
// started then begins from the start: the record counts only as long as nodes may still be alive
// elsewhere or, if its run has ended, for that hour.
//
// Thread rule: plain values; host_now() asks the system, from any thread.
#pragma once

#include "rendezvous/core/run/run_record.hpp"

#include <cstdint>
#include <string>

namespace ddprun::journal {

// How often a daemon records that it is alive. A record may be this much younger than it looks.
inline constexpr std::chrono::minutes alive_interval{5};
inline constexpr std::chrono::hours record_memory{1};

struct host_moment {
  std::string boot;        // boot id; empty: unknown
  std::int64_t up = 0;     // seconds since boot, including suspend
  std::int64_t clock = 0;  // seconds since 1970 by the host's clock
};

host_moment host_now();

// `alive`: when the daemon that wrote the record was last alive.
bool is_too_old(const core::run_record& record, const host_moment& alive, const host_moment& now);

}  // namespace ddprun::journal
