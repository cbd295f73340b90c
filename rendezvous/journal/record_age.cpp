#include "rendezvous/journal/record_age.hpp"

#include <algorithm>
#include <ctime>
#include <fstream>

namespace ddprun::journal {

host_moment host_now() {
  host_moment made;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> made.boot;
  timespec up{};
  if (::clock_gettime(CLOCK_BOOTTIME, &up) == 0) made.up = up.tv_sec;
  made.clock = std::time(nullptr);
  return made;
}

bool is_too_old(const core::run_record& record, const host_moment& alive, const host_moment& now) {
  const bool is_same_boot = !now.boot.empty() && alive.boot == now.boot;
  const std::chrono::seconds age(is_same_boot ? now.up - alive.up : now.clock - alive.clock);
  duration limit = std::max(record.gone_after, record.lost_after);
  // A run that has ended is remembered this long, to tell returning agents how it ended.
  if (is_same_boot || record.end) limit = std::max<duration>(limit, record_memory);
  return age > limit + alive_interval;
}

}  // namespace ddprun::journal
