// An environment as a plain map, so that its users can be tested without changing the process.
//
// Thread rule: plain values. No other thread may change the array while `environment_from` reads
// it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using environment_map = std::map<std::string, std::string, std::less<>>;

// The map of a NULL-terminated array of NAME=VALUE such as `environ`. Entries without "=" are left
// out; if a name is repeated, the first counts, as for getenv().
inline environment_map environment_from(const char* const* entries) {
  environment_map variables;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

// The same as NAME=value strings, sorted by name.
inline std::vector<std::string> to_entries(const environment_map& variables) {
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables)
    entries.push_back(name + "=" + value);
  return entries;
}

// The value of a variable, or null if it is not set. Valid until the map changes.
inline const std::string* find_variable(const environment_map& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : &found->second;
}

// Empty if it is not set, or set to nothing.
inline std::string variable_or_empty(const environment_map& variables, std::string_view name) {
  const std::string* const value = find_variable(variables, name);
  return value == nullptr ? "" : *value;
}

// The folder for temporary files, chosen as mktemp does.
inline std::string folder_for_temporaries(const environment_map& variables) {
  const std::string chosen = variable_or_empty(variables, "TMPDIR");
  return chosen.empty() ? "/tmp" : chosen;
}

}  // namespace ddprun
