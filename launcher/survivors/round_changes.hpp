// Compares a worker's environment of one round with that of the next.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::survivors {

// Returns NAME=VALUE for new and changed variables, NAME for removed ones, each ended by a zero
// byte. Both lists consist of NAME=VALUE, each name once.
std::string round_changes(const std::vector<std::string>& before,
                          const std::vector<std::string>& after);

// The value of that variable; empty: it is not set.
std::string_view value_of(std::string_view name, const std::vector<std::string>& environment);

}  // namespace ddprun::launcher::survivors
