// The names that ddprun's command line knows: its own options, torchrun's, and those of torchrun's
// that it does not have yet, with the line that answers them.
//
// Names are kept with dashes; underscores are the same. Lookup follows argparse: an exact name, or
// a prefix of one name only. Options that torchrun does not have stand back, so that a prefix that
// is enough for torchrun is enough here.
//
// Thread rule: constant tables and pure functions.
#pragma once

#include "launcher/cli/usage_error.hpp"

#include <span>
#include <string>
#include <string_view>

namespace ddprun {

enum class option_kind {
  value,  // --name VALUE or --name=VALUE
  flag,   // --name; in the environment: an integer, on when not 0
};

struct option_spec {
  std::string_view name;  // without the leading dashes
  option_kind kind = option_kind::value;
  char letter = 0;                    // short form; 0: none
  bool in_environment = true;         // PET_<NAME> gives the default
  std::string_view unsupported = {};  // why it is refused, and what to do; empty: supported
  std::string_view harmless = {};     // the one value of an unsupported option that is accepted
};

std::span<const option_spec> option_table();

// The option of that name, which may have underscores and may be a prefix. The error names the
// nearest known option, or the options that the prefix could mean.
parsed<const option_spec*> find_option(std::string_view name);

// The option with that letter; null when there is none.
const option_spec* find_letter(char letter);

// "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string environment_name(std::string_view option);

// The candidate that is the fewest edits away from `name`, or nothing when all are far from it.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace ddprun
