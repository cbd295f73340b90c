#include "rendezvous/base/name_text.hpp"

#include <algorithm>

namespace ddprun {

std::string text_of_names(const std::vector<std::string>& names, std::size_t count) {
  const std::size_t named = std::min(names.size(), names_in_text_max);
  const std::size_t more = count > named ? count - named : 0;
  std::string text;
  for (std::size_t index = 0; index < named; ++index) {
    const bool is_last = index + 1 == named && more == 0;
    text += (index == 0 ? "" : is_last ? " and " : ", ") + names[index];
  }
  if (more != 0) text += " and " + std::to_string(more) + " more";
  return text;
}

}  // namespace ddprun
