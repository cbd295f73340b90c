// Options that the user left out are taken from the cluster's engine: how many nodes there are,
// which one this is, and where they meet.
//
// Thread rule: a pure function except for `find`.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "launcher/hosts/placement.hpp"

#include <functional>

namespace ddprun::launcher {

// What is typed wins: `find` is not called if the user has said where the nodes meet, or that there
// is only one. Call this before the options are settled. Errors: the engine's own, and a number of
// nodes that contradicts it.
cli::checked settle_placement(options_draft& draft,
                              const std::function<hosts::placement_outcome()>& find);

}  // namespace ddprun::launcher
