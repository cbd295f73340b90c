// Sizes for people: "64 MiB", "1.5 GiB".
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::launcher {

std::string size_text(std::uint64_t bytes);

}  // namespace ddprun::launcher
