// The rows of the option table for schedulers that watch an agent from outside, as Kubernetes does:
// by a probe, and by its exit code.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked apply_health_port(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.health_port,
                   cli::read_port(option.given, option.value, "0 for none"));
}

inline cli::checked apply_drain_exit_code(options_draft& draft, const cli::given_option& option) {
  const auto code = cli::read_count(option.given, option.value, "exit code", 0, 255);
  if (!code) return code.error();
  draft.options.drain_exit_code = static_cast<int>(*code);
  return {};
}

inline constexpr std::array pod_rows = {
    cli::option<options_draft>{{"health-port", "PORT", "This node",
                                "answer GET /healthz on this port while the agent works, whatever\n"
                                "the workers do; for probes of Kubernetes (none)"},
                               apply_health_port},
    cli::option<options_draft>{
        {"drain-exit-code", "CODE", "Failures",
         "exit code of a node that leaves in order on a signal while the others\n"
         "go on; use 143 if a scheduler should replace it (0)"},
        apply_drain_exit_code},
};

}  // namespace ddprun::launcher
