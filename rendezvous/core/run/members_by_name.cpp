#include "rendezvous/core/run/members_by_name.hpp"

#include "rendezvous/base/name_text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

members_by_name::members_by_name(std::uint32_t size, shared_list<std::string> names)
    : size_(size), names_(std::move(names)), missing_(size) {
  const std::vector<std::string>& all = names_.items();
  for (std::size_t index = 0; index < std::min<std::size_t>(all.size(), size_); ++index) {
    if (!all[index].empty()) ++short_of_[all[index]];
  }
}

void members_by_name::count(const std::string& name, bool is_here) {
  const auto found = short_of_.find(name);
  if (found == short_of_.end()) return;
  std::int64_t& short_of = found->second;
  if (is_here) {
    if (short_of-- > 0) --missing_;
  } else {
    if (++short_of > 0) ++missing_;
  }
}

std::vector<std::string> members_by_name::missing_names() const {
  std::vector<std::string> names;
  std::size_t named = 0;
  for (const auto& [name, short_of] : short_of_) {
    if (short_of <= 0) continue;
    named += static_cast<std::size_t>(short_of);
    if (names.size() < names_in_text_max) names.push_back(name);
  }
  if (named != missing_) return {};
  return names;
}

}  // namespace ddprun::core
