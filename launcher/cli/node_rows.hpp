// The rows of the option table that say what of this node the workers use: its network, its GPUs,
// its processors; and what becomes of the processes that they leave behind.
//
// Thread rule: constants and pure functions.
#pragma once

#include "launcher/cli/option_table.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked apply_children_grace(options_draft& draft, const cli::given_option& option) {
  if (option.value == "keep") {
    draft.options.children_grace.reset();
    return {};
  }
  return cli::keep(draft.options.children_grace,
                   cli::read_seconds(option.given, option.value, true));
}

inline constexpr std::array node_rows = {
    cli::option<options_draft>{{"children-grace", "SECONDS | keep", "Workers",
                                "how long processes may run on that a worker leaves behind which\n"
                                "ended well; keep: for good (30)"},
                               apply_children_grace},
};

}  // namespace ddprun::launcher
