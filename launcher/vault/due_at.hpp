// Tells when a copy that is limited to a rate may continue.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun::launcher::vault {

// A longer wait would overflow the clock.
inline constexpr std::chrono::hours longest_due{24 * 365};

// `copied` bytes were copied since `begun`; `rate` is in bytes per second, 0: unlimited.
inline std::chrono::steady_clock::time_point due_at(std::chrono::steady_clock::time_point begun,
                                                    std::uint64_t copied, std::uint64_t rate) {
  if (rate == 0) return begun;
  const std::chrono::duration<double> wait(static_cast<double>(copied) / static_cast<double>(rate));
  if (wait >= longest_due) return begun + longest_due;
  return begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

}  // namespace ddprun::launcher::vault
