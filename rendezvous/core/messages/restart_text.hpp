// How a restart is named in a sentence: "restart 2 of 3" or, if --restart-window has forgiven some,
// "restart 1 of 3 (4 in all)".
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::core {

// `used`: charged so far, with this one; `forgiven`: how many of these no longer count.
inline std::string restart_text(std::uint32_t used, std::uint32_t forgiven, std::uint32_t most) {
  const std::uint32_t counts = used - (forgiven < used ? forgiven : used);
  std::string text = "restart " + std::to_string(counts) + " of " + std::to_string(most);
  if (counts != used) text += " (" + std::to_string(used) + " in all)";
  return text;
}

}  // namespace ddprun::core
