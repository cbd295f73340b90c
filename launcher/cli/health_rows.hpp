// The rows of the option table about checking a node after a failed round.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "rendezvous/cli/values.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked apply_health_check(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "write a command for /bin/sh -c");
  draft.options.health.command = option.value;
  return {};
}

inline cli::checked apply_health_timeout(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.health.limit,
                   cli::read_seconds(option.given, option.value, false));
}

inline cli::checked apply_health_interval(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.health.again,
                   cli::read_seconds(option.given, option.value, false));
}

inline constexpr std::array health_rows = {
    cli::option<options_draft>{
        {"health-check", "COMMAND", "Failures",
         "run by /bin/sh -c on each node while a failed round stops; a node on\n"
         "which it fails sits out if a spare or the minimum allows it"},
        apply_health_check},
    cli::option<options_draft>{{"health-check-timeout", "SECONDS", "Failures",
                                "how long that command may take before it is killed, which counts\n"
                                "as failing (5)"},
                               apply_health_timeout},
    cli::option<options_draft>{{"health-check-interval", "SECONDS", "Failures",
                                "how long a node that sits out waits for its next check (60)"},
                               apply_health_interval},
};

}  // namespace ddprun::launcher
