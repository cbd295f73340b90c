// What changes in a worker's environment from one round to the next.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::survivors {

// NAME=VALUE of what is new or another, NAME of what is gone; a zero byte after each. Both are
// lists of NAME=VALUE, each name once.
std::string round_changes(const std::vector<std::string>& before,
                          const std::vector<std::string>& after);

// Of the variable; empty: there is none.
std::string_view value_of(std::string_view name, const std::vector<std::string>& environment);

}  // namespace ddprun::launcher::survivors
