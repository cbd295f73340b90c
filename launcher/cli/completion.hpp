// Scripts by which a shell completes ddprun's options, made from their table, so that they are
// never behind it. Options that are refused are not in them.
#pragma once

#include "rendezvous/cli/option.hpp"

#include <string>

namespace ddprun::launcher {

// For ~/.local/share/bash-completion/completions/ddprun.
std::string bash_completion(const cli::command& of);

// For a file _ddprun in a folder of zsh's fpath.
std::string zsh_completion(const cli::command& of);

}  // namespace ddprun::launcher
