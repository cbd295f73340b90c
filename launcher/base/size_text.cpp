#include "launcher/base/size_text.hpp"

#include <spdlog/fmt/fmt.h>

namespace ddprun::launcher {

std::string size_text(std::uint64_t bytes) {
  constexpr double kib = 1024;
  const auto size = static_cast<double>(bytes);
  if (size < kib * kib) return fmt::format("{:.0f} KiB", size / kib);
  if (size < kib * kib * kib) return fmt::format("{:.0f} MiB", size / kib / kib);
  return fmt::format("{:.1f} GiB", size / kib / kib / kib);
}

}  // namespace ddprun::launcher
