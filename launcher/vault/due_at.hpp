// When a copy may go on that takes no more than its rate.
//
// Thread rule: pure function.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddprun::launcher::vault {

// A longer wait is none that a clock can name.
inline constexpr std::chrono::hours longest_due{24 * 365};

// So many bytes have been `copied` since it has begun; `rate`: bytes each second, 0: any.
inline std::chrono::steady_clock::time_point due_at(std::chrono::steady_clock::time_point begun,
                                                    std::uint64_t copied, std::uint64_t rate) {
  if (rate == 0) return begun;
  const std::chrono::duration<double> wait(static_cast<double>(copied) / static_cast<double>(rate));
  if (wait >= longest_due) return begun + longest_due;
  return begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

}  // namespace ddprun::launcher::vault
