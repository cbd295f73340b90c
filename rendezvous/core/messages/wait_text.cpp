#include "rendezvous/core/messages/wait_text.hpp"

#include <algorithm>

namespace ddprun {

std::string rough_text(duration span) {
  using namespace std::chrono;
  const auto whole = std::max<std::int64_t>(1, round<seconds>(span).count());
  if (whole < 120) return std::to_string(whole) + " s";
  return std::to_string((whole + 30) / 60) + " min";
}

std::string sentence_of(const departure& gone, duration since) {
  std::string text = gone.what + " " + rough_text(gone.age + since) + " ago";
  if (!gone.why.empty()) text += ": " + gone.why;
  return text;
}

std::string with_left(std::string_view text, duration left, bool is_last_call) {
  if (left <= duration::zero()) return std::string(text);
  const std::size_t end = std::min(text.find("; "), text.size());
  std::string said(text.substr(0, end));
  said += is_last_call ? ": " + rough_text(left) : ", " + rough_text(left) + " left";
  return said.append(text.substr(end));
}

}  // namespace ddprun
