#include "rendezvous/net/descriptor_limit.hpp"

#include <algorithm>
#include <sys/resource.h>

namespace ddprun::net {
namespace {

// Larger limits, "unlimited" among them, count as this one.
constexpr rlim_t limit_max = 1 << 20;

// The loops, the log and its threads, the journal, a port, and a few connections.
constexpr std::size_t least_descriptors = 64;

}  // namespace

std::size_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<std::size_t>(std::min(limit.rlim_cur, limit_max));
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, limit_max));
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return descriptor_limit();
}

std::size_t hard_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<std::size_t>(std::min(limit.rlim_max, limit_max));
}

std::string too_few_descriptors(std::size_t limit) {
  if (limit >= least_descriptors) return {};
  return "too few file descriptors: this process may open " + std::to_string(limit) +
         ", and at least " + std::to_string(least_descriptors) +
         " are needed; raise the hard limit (ulimit -Hn)";
}

}  // namespace ddprun::net
