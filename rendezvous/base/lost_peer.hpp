// What a program of ours adds to the text of an error that was caused by another process of its
// job: a rank that is gone or does not come, or the store. The launcher's report looks for it,
// so that the rank that says so is not blamed for the end of the other.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view lost_peer_mark = " (a peer is gone or late)";

// With the mark at its end, unless it is there already.
inline std::string for_want_of_peer(std::string text) {
  if (text.find(lost_peer_mark) == std::string::npos) text += lost_peer_mark;
  return text;
}

}  // namespace ddprun
