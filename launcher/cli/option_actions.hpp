// Puts one option of the command line into the launch options.
//
// What an option means together with others is decided once all are read, in options.cpp; the
// draft remembers what that needs.
//
// Thread rule: pure functions.
#pragma once

#include "launcher/cli/command_line.hpp"
#include "launcher/cli/options.hpp"

#include <optional>
#include <string>

namespace ddprun {

// The options read so far. Texts are the options as the person wrote them; empty: not given.
struct options_draft {
  launch_options options;
  std::string nodes;
  std::string endpoint;
  std::string backend;
  std::string run_id;
  std::string standalone;
  std::string store;
  std::string embed;
  std::string master_address;        // the option
  std::string master_address_value;  // its value
  std::string module;
  std::string no_python;
  std::optional<bool> is_host;               // of --rdzv-conf
  std::optional<duration> shutdown_timeout;  // becomes stop_grace
};

// Reads the value of `option` into `draft`. --help and --version are left to the caller.
checked apply_option(options_draft& draft, const given_option& option);

}  // namespace ddprun
