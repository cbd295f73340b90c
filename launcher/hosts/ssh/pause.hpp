// How long to wait before a retry: each time twice as long, and different for each host, because
// hosts with equal pauses would all return at once.
#pragma once

#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ddprun::launcher::ssh {

// splitmix64: maps each value to one of 2^64.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Returns between half of the pause and all of it. `failures` are those before this one.
inline duration pause_after(std::uint32_t failures, duration first, duration most,
                            std::uint64_t seed, std::size_t host) {
  const std::uint32_t doublings = std::min<std::uint32_t>(failures, 20);
  const duration whole = std::min<duration>(first * (1U << doublings), most);
  const std::uint64_t drawn = mixed(seed ^ mixed(host * 1024 + failures));
  return whole / 2 + whole / 2 * static_cast<std::int64_t>(drawn % 1000) / 1000;
}

}  // namespace ddprun::launcher::ssh
