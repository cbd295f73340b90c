// Shell scripts that complete ddprun's options, generated from the option table so that they are
// never out of date. Refused options are left out.
#pragma once

#include "rendezvous/cli/option.hpp"

#include <string>

namespace ddprun::launcher {

// For ~/.local/share/bash-completion/completions/ddprun.
std::string bash_completion(const cli::command& of);

// For a file _ddprun in a folder of zsh's fpath.
std::string zsh_completion(const cli::command& of);

}  // namespace ddprun::launcher
