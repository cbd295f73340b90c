// How long ago a daemon was alive that kept a record, and whether that still counts.
//
// A record is good for as long as nodes of its run may live or come back, and an hour more for who
// starts the same command again. Within one boot of the host the clock that nobody sets tells how
// old it is. After another one there is only the time of day, and who starts a job on a host that
// has just been booted begins anew: only what may still live elsewhere counts.
//
// Thread rule: plain values; host_now() asks the system, and may be called from any thread.
#pragma once

#include "rendezvous/core/run/run_record.hpp"

#include <cstdint>
#include <string>

namespace ddprun::journal {

// How often a daemon leaves word that it is alive: by so much a record may be younger than it says.
inline constexpr std::chrono::minutes alive_interval{5};
inline constexpr std::chrono::hours record_memory{1};

struct host_moment {
  std::string boot;        // the boot's id; empty: not known
  std::int64_t up = 0;     // seconds since then, also those in which the host slept
  std::int64_t clock = 0;  // seconds since 1970, as the host's clock says
};

host_moment host_now();

// `alive`: when the daemon that kept it was alive last.
bool is_too_old(const core::run_record& record, const host_moment& alive, const host_moment& now);

}  // namespace ddprun::journal
