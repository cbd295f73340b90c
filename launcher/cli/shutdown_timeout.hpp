// How long workers have between a signal to the launcher, which they also get, and SIGKILL, in
// torchrun's terms: --shutdown-timeout, or TORCH_ELASTIC_SHUTDOWN_TIMEOUT in the environment. It
// becomes the timer drain_grace. After a failure, stop_grace applies; if that was not given, busy
// workers get up to 30 s (with torchrun all workers do).
#pragma once

#include "launcher/cli/option_table.hpp"
#include "rendezvous/cli/values.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// torchrun's 0 means SIGKILL at once, which is the shortest timer here.
inline cli::parsed<duration> read_shutdown_timeout(std::string_view given, std::string_view text) {
  auto seconds = cli::read_seconds(given, text, true);
  if (seconds) *seconds = std::max<duration>(*seconds, std::chrono::milliseconds(1));
  return seconds;
}

// Called once all options are read. What was typed wins, also as drain_grace in --rdzv-conf.
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
