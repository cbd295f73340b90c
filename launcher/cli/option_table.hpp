// The options of ddprun: a table of rows, and the draft that their actions fill.
//
// What options mean together is decided once all are read, in options.cpp; the draft holds what
// that needs.
#pragma once

#include "launcher/cli/options.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/option.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// The options read so far.
struct options_draft {
  launch_options options;
  std::string master_address;                // the value of --master-addr
  std::string empty_master_address;          // what was written, if it had no value
  std::string backend;                       // from --rdzv-backend; empty: not given
  std::optional<bool> is_host;               // from --rdzv-conf
  std::vector<std::string> typed_timers;     // timers that --rdzv-conf has set
  std::optional<duration> shutdown_timeout;  // becomes drain_grace
  std::optional<duration> failure_grace;     // overrides --rdzv-conf
  std::optional<duration> restart_window;    // overrides --rdzv-conf
  std::string answer;                        // to --help or --version
  // What was last written for each option, by its name: "--nnodes=2", "PET_NNODES=2".
  std::map<std::string_view, std::string> given;

  bool is_typed_timer(std::string_view name) const {
    return std::find(typed_timers.begin(), typed_timers.end(), name) != typed_timers.end();
  }
  // Empty: not given.
  std::string words_of(std::string_view name) const {
    const auto found = given.find(name);
    return found == given.end() ? std::string() : found->second;
  }
};

inline cli::log_options& log_options_of(options_draft& draft) {
  return draft.options.log;
}

// All options, from the command line and from PET_* in the environment.
const cli::command& launcher_command();

// Reads the value of `option`, which is one of launcher_command(), into `draft`.
cli::checked apply_option(options_draft& draft, const cli::given_option& option);

}  // namespace ddprun::launcher
