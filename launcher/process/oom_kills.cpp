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

}  // namespace ddprun::launcher
