#include "launcher/report/output_lines.hpp"

#include "launcher/base/rank_mark.hpp"

#include <algorithm>

namespace ddprun::launcher {

std::vector<std::string_view> output_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    // Of a progress bar, only its last state counts.
    line = line.substr(line.rfind('\r') + 1);
    lines.push_back(without_rank(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_of_way_out(std::string_view line) {
  if (line.find_first_not_of(' ') == std::string_view::npos || line.starts_with(' ')) return true;
  for (const std::string_view begin :
       {"Traceback (most recent", "Exception ignored", "Exception raised from", "frame #",
        "terminate called", "[W", "wandb: ", "During handling of the above exception",
        "The above exception was the direct cause", "Fatal Python error", "Current thread 0x",
        "Thread 0x", "Extension modules: "}) {
    if (line.starts_with(begin)) return true;
  }
  // "/opt/x.py:3: UserWarning: ..."
  return line.find("Warning: ") != std::string_view::npos;
}

bool is_fatal_error(std::string_view line) {
  return line.starts_with("Fatal Python error: ");
}

}  // namespace ddprun::launcher
