// Splits a command line into options and the script with its arguments, as argparse does for
// torchrun: dashes and underscores alike, `--name=value` and `--name value`, unambiguous prefixes,
// and nothing after the script is looked at.
//
// It is a parser of ours because CLI11 cannot match prefixes, stop at the first positional argument
// with options of the script untouched, and answer for known options that do not exist yet.
//
// Thread rule: pure functions.
#pragma once

#include "launcher/cli/environment_map.hpp"
#include "launcher/cli/option_table.hpp"
#include "launcher/cli/usage_error.hpp"

#include <string>
#include <vector>

namespace ddprun {

struct given_option {
  const option_spec* spec = nullptr;
  std::string value;  // flags: empty
  std::string given;  // as the person wrote it, for messages: "--nnodes=3:2", "PET_NNODES=3:2"
};

struct split_line {
  std::vector<given_option> options;  // defaults of the environment first, then as written
  std::string program;                // empty: none was given
  std::vector<std::string> arguments;
};

// The options of the environment (PET_*) and the command line. Flags that the environment turns
// off are left out; an option that ddprun does not have yet is an error.
parsed<split_line> split_command_line(const std::vector<std::string>& command_line,
                                      const environment_map& environment);

}  // namespace ddprun
