// The mark that our programs add to an error caused by another process of the job: a rank or the
// store that is gone or late. The launcher's report looks for it, so that the rank that reports the
// error is not blamed.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view lost_peer_mark = " (a peer is gone or late)";

// Appends the mark unless it is there already.
inline std::string for_want_of_peer(std::string text) {
  if (text.find(lost_peer_mark) == std::string::npos) text += lost_peer_mark;
  return text;
}

}  // namespace ddprun
