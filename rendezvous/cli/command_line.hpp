// Splits a command line into options and the script with its arguments, as argparse does for
// torchrun: dashes and underscores are the same, `--name=value` and `--name value` too, prefixes
// may be used if they are unambiguous, and everything after the script belongs to it.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <string>
#include <vector>

namespace ddprun::cli {

struct split_line {
  std::vector<given_option> options;  // those from the environment first, then as written
  std::string program;                // the script; empty: not given
  std::vector<std::string> arguments;
};

// Reads the options of the environment and the command line. `words` do not include the program's
// name. Flags that the environment turns off are left out. If a question is among the options, it
// is the only one.
parsed<split_line> split_command_line(const command& of, const std::vector<std::string>& words,
                                      const environment_map& environment);

// Reads what it can of a refused line: its options and those of the environment, except unknown
// ones and ones without a value. A word after an unknown option counts as its value if another
// option follows, otherwise as the script.
std::vector<given_option> readable_options(const command& of, const std::vector<std::string>& words,
                                           const environment_map& environment);

// For --help or --version: print `text` on standard output and exit with 0.
struct show_text {
  std::string text;
};

}  // namespace ddprun::cli
