// How long workers have from a signal to the launcher, which they get too, to SIGKILL, as
// torchrun's users say it: --shutdown-timeout, or TORCH_ELASTIC_SHUTDOWN_TIMEOUT in the
// environment. It becomes the timer drain_grace. After a failure it is stop_grace, and where that
// was not typed up to 30 s for workers that are at something (with torchrun always 30 s).
#pragma once

#include "launcher/cli/option_table.hpp"
#include "rendezvous/cli/values.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// torchrun's 0 is SIGKILL at once: the least that a timer can be.
inline cli::parsed<duration> read_shutdown_timeout(std::string_view given, std::string_view text) {
  auto seconds = cli::read_seconds(given, text, true);
  if (seconds) *seconds = std::max<duration>(*seconds, std::chrono::milliseconds(1));
  return seconds;
}

// Once all options are read. What was typed wins, also as drain_grace of --rdzv-conf.
inline cli::checked settle_shutdown_timeout(options_draft& draft,
                                            const environment_map& environment) {
  constexpr std::string_view name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const std::string* const text = find_variable(environment, name);
  const bool is_typed = draft.shutdown_timeout.has_value() || draft.is_typed_timer("drain_grace");
  if (text != nullptr && !text->empty() && !is_typed) {
    std::string given(name);
    given += '=';
    given += *text;
    if (const auto wrong = cli::keep(draft.shutdown_timeout, read_shutdown_timeout(given, *text))) {
      return wrong;
    }
  }
  draft.options.spares_busy_workers = !draft.is_typed_timer("stop_grace");
  if (draft.shutdown_timeout) draft.options.settings.timing.drain_grace = *draft.shutdown_timeout;
  return {};
}

}  // namespace ddprun::launcher
