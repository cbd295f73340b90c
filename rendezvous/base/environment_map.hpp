// An environment as a plain map, so that what reads it can be tested without touching the process.
//
// Thread rule: plain values; `environment_from` reads the array that it is given, and nobody may
// change that meanwhile.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using environment_map = std::map<std::string, std::string, std::less<>>;

// The map of a NULL-terminated array of NAME=VALUE, as `environ` is. Entries without "=" are left
// out; of a name that comes twice the first counts, as for getenv().
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

// The same as NAME=value, in the order of the names.
inline std::vector<std::string> to_entries(const environment_map& variables) {
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables)
    entries.push_back(name + "=" + value);
  return entries;
}

// The value of a variable, or null when it is not set. Valid while the map is not changed.
inline const std::string* find_variable(const environment_map& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : &found->second;
}

// Empty: it is not set, or to nothing.
inline std::string variable_or_empty(const environment_map& variables, std::string_view name) {
  const std::string* const value = find_variable(variables, name);
  return value == nullptr ? "" : *value;
}

// Where files of the moment belong, as mktemp has it.
inline std::string folder_for_temporaries(const environment_map& variables) {
  const std::string chosen = variable_or_empty(variables, "TMPDIR");
  return chosen.empty() ? "/tmp" : chosen;
}

}  // namespace ddprun
