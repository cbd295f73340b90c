#include "launcher/agent/store_limits.hpp"

#include <sys/resource.h>

namespace ddprun {
namespace {

constexpr std::uint64_t own_descriptors = 64;  // pipes, session, libraries

}  // namespace

bool allow_descriptors(std::uint64_t needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return true;
  if (limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur) return true;
  if (limit.rlim_max != RLIM_INFINITY && needed > limit.rlim_max) return false;
  limit.rlim_cur = needed;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::string descriptor_problem(const core::open_service& wanted) {
  // PyTorch connects once for the default group; scripts that clone the store connect again.
  const std::uint64_t needed =
      own_descriptors + std::uint64_t{2} * wanted.world_size + wanted.group_world_size;
  if (allow_descriptors(needed)) return {};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return "too few file descriptors: the job store of " + std::to_string(wanted.world_size) +
         " workers needs " + std::to_string(needed) + " descriptors and this process may open " +
         std::to_string(limit.rlim_max) + "; raise the hard limit (ulimit -Hn) and start again";
}

}  // namespace ddprun
