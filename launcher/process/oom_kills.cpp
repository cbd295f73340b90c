#include "launcher/process/oom_kills.hpp"

#include <fstream>
#include <string>

namespace ddprun::launcher {

std::optional<std::uint64_t> count_oom_kills() {
  std::ifstream counters("/proc/vmstat");
  std::string name;
  for (std::uint64_t count = 0; counters >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return {};
}

void recent_oom_kills::notice(clock::time_point now, std::optional<std::uint64_t> (*count)()) {
  if (last_at_ && now - *last_at_ < interval) return;
  last_at_ = now;
  before_ = last_;
  last_ = count();
  if (!before_) before_ = last_;
}

bool recent_oom_kills::is_any(std::optional<std::uint64_t> counted_now) const {
  return before_ && counted_now && *counted_now > *before_;
}

}  // namespace ddprun::launcher
