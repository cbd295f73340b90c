#include "launcher/survivors/round_changes.hpp"

#include <map>

namespace ddprun::launcher::survivors {
namespace {

using variables = std::map<std::string_view, std::string_view>;

variables variables_of(const std::vector<std::string>& environment) {
  variables found;
  for (const std::string_view entry : environment) {
    const std::size_t end = entry.find('=');
    if (end != std::string_view::npos) found.emplace(entry.substr(0, end), entry.substr(end + 1));
  }
  return found;
}

}  // namespace

std::string round_changes(const std::vector<std::string>& before,
                          const std::vector<std::string>& after) {
  variables gone = variables_of(before);
  std::string changes;
  for (const auto& [name, value] : variables_of(after)) {
    const auto found = gone.find(name);
    const bool is_the_same = found != gone.end() && found->second == value;
    if (found != gone.end()) gone.erase(found);
    if (!is_the_same) changes.append(name).append("=").append(value) += '\0';
  }
  for (const auto& [name, value] : gone)
    changes.append(name) += '\0';
  return changes;
}

std::string_view value_of(std::string_view name, const std::vector<std::string>& environment) {
  for (const std::string_view entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return {};
}

}  // namespace ddprun::launcher::survivors
