// Parses a command line that is written as one string.
#pragma once

#include "launcher/cli/options.hpp"
#include "tests/support/catch.hpp"

#include <sstream>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::tests {

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> found;
  for (std::string word; stream >> word;)
    found.push_back(word);
  return found;
}

inline launcher::launch_options options_of(const std::string& line,
                                           const environment_map& environment = {}) {
  const auto outcome = launcher::parse_options(words(line), environment);
  INFO("ddprun " << line);
  if (const auto* wrong = std::get_if<cli::usage_error>(&outcome)) FAIL(wrong->text);
  REQUIRE(std::holds_alternative<launcher::launch_options>(outcome));
  return std::get<launcher::launch_options>(outcome);
}

// The error for a wrong line; empty: the line is right.
inline std::string usage_error_of(const std::string& line,
                                  const environment_map& environment = {}) {
  const auto outcome = launcher::parse_options(words(line), environment);
  const auto* wrong = std::get_if<cli::usage_error>(&outcome);
  return wrong == nullptr ? std::string() : wrong->text;
}

}  // namespace ddprun::tests
