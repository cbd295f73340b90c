// Options that the person left out are those that the cluster's own engine knows: how many nodes
// there are, which one this is, and where they meet.
//
// Thread rule: a pure function, but for what `find` does.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "launcher/hosts/placement.hpp"

#include <functional>

namespace ddprun::launcher {

// What is typed wins: `find` is not called at all where the person has said where the nodes meet
// (or that there is one). To be called before the options are settled. Errors: the engine's own,
// and a number of nodes that contradicts it.
cli::checked settle_placement(options_draft& draft,
                              const std::function<hosts::placement_outcome()>& find);

}  // namespace ddprun::launcher
