#include "rendezvous/log/output_loss.hpp"

#include <algorithm>

namespace ddprun::log {

void output_loss::add(std::string_view text) {
  if (text.empty()) return;
  bytes += text.size();
  lines += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  if (in_line) --lines;
  in_line = text.back() != '\n';
  if (in_line) ++lines;
}

void output_loss::add(const output_loss& other) {
  lines += other.lines;
  bytes += other.bytes;
}

std::string output_loss::describe() const {
  return std::to_string(lines) + (lines == 1 ? " line (" : " lines (") + std::to_string(bytes) +
         (bytes == 1 ? " byte)" : " bytes)");
}

std::string output_loss::is_lost(const std::string& whose) const {
  return describe() + (whose.empty() ? "" : " of " + whose) +
         (lines == 1 ? " is lost" : " are lost");
}

}  // namespace ddprun::log
