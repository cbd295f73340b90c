// Splits a command line into options and the script with its arguments, as argparse does for
// torchrun: dashes and underscores alike, `--name=value` and `--name value`, unambiguous prefixes,
// and nothing after the script is looked at.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <vector>

namespace ddprun::cli {

struct split_line {
  std::vector<given_option> options;  // defaults of the environment first, then as written
  std::string program;                // the script; empty: none was given
  std::vector<std::string> arguments;
};

// The options of the environment and the command line, of which `words` are without the program's
// own name. Flags that the environment turns off are left out. If a question is among the options,
// it is the only one.
parsed<split_line> split_command_line(const command& of, const std::vector<std::string>& words,
                                      const environment_map& environment);

// What can be read of a line that was refused: its options, and those of the environment, but for
// those that are not known or lack a value. What stands behind an unknown option is its value where
// another option follows, else the script.
std::vector<given_option> readable_options(const command& of, const std::vector<std::string>& words,
                                           const environment_map& environment);

// --help or --version: print `text` on standard output and exit with 0.
struct show_text {
  std::string text;
};

}  // namespace ddprun::cli
