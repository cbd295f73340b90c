// torchrun's options that ddprun lacks, with the message that answers them.
#pragma once

#include "rendezvous/cli/option.hpp"

#include <array>

namespace ddprun::launcher {

// torchrun accepts these on the command line only.
constexpr cli::option_spec torchruns_on_the_line(std::string_view name,
                                                 cli::option_kind kind = cli::option_kind::value) {
  return {
      .name = name, .whose = cli::option_owner::torchrun, .kind = kind, .in_environment = false};
}

template <typename Draft>
inline constexpr std::array torchruns_only = {
    cli::option<Draft>{torchruns_on_the_line("logs-specs"),
                       cli::refusal{"ddprun loads no Python entry points; leave the option out"}},
};

}  // namespace ddprun::launcher
