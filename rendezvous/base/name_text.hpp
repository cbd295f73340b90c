// How names are listed in a sentence.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

inline constexpr std::size_t names_in_text_max = 8;

// "node-a", "node-a and node-b", "node-a, node-b and 7 more": `names` has some, at least one, of
// `count` names. At most names_in_text_max of them are listed.
std::string text_of_names(const std::vector<std::string>& names, std::size_t count);
inline std::string text_of_names(const std::vector<std::string>& names) {
  return text_of_names(names, names.size());
}

}  // namespace ddprun
