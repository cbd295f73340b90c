// The options of torchrun that ddprun does not have, or not yet, with the line that answers them.
//
// Thread rule: constants.
#pragma once

#include "rendezvous/cli/option.hpp"

#include <array>

namespace ddprun::launcher {

inline constexpr std::string_view no_logs =
    "ddprun writes no log files yet; send its own output to a file instead";
inline constexpr std::string_view no_filter =
    "every worker's output is shown, with a prefix [node:rank]";

constexpr option_spec torchruns(std::string_view name, option_kind kind = option_kind::value,
                                char letter = 0) {
  return {.name = name, .whose = option_owner::torchrun, .kind = kind, .letter = letter};
}

// These torchrun takes from the command line only.
constexpr option_spec torchruns_on_the_line(std::string_view name,
                                            option_kind kind = option_kind::value) {
  return {.name = name, .whose = option_owner::torchrun, .kind = kind, .in_environment = false};
}

template <typename Draft>
inline constexpr std::array torchruns_only = {
    option<Draft>{torchruns("run-path", option_kind::flag),
                  refusal{"ddprun starts every worker as a program of its own; leave the option "
                          "out"}},
    option<Draft>{torchruns("start-method"),
                  refusal{"it chooses how Python functions are started, and ddprun starts "
                          "programs; leave the option out",
                          "spawn"}},
    option<Draft>{torchruns("signals-to-handle"),
                  refusal{"SIGTERM, SIGINT, SIGHUP and SIGQUIT are handled; leave the option out",
                          "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}},
    option<Draft>{torchruns("log-dir"), refusal{no_logs}},
    option<Draft>{torchruns("redirects", option_kind::value, 'r'), refusal{no_logs, "0"}},
    option<Draft>{torchruns("tee", option_kind::value, 't'), refusal{no_logs, "0"}},
    option<Draft>{torchruns("local-ranks-filter"), refusal{no_filter}},
    option<Draft>{torchruns("duplicate-stdout-filters"), refusal{no_filter}},
    option<Draft>{torchruns("duplicate-stderr-filters"), refusal{no_filter}},
    option<Draft>{torchruns("log-line-prefix-template"),
                  refusal{"every worker's line has the prefix [node:rank]; leave the option out"}},
    option<Draft>{torchruns_on_the_line("print-completion"),
                  refusal{"ddprun has no completion for shells; leave the option out"}},
    option<Draft>{torchruns("event-log-handler"),
                  refusal{"ddprun has no handlers of Python events; leave the option out", "null"}},
    option<Draft>{torchruns_on_the_line("logs-specs"),
                  refusal{"ddprun loads no Python entry points; leave the option out"}},
    option<Draft>{torchruns("numa-binding"),
                  refusal{"start the workers through numactl, with --no-python"}},
    option<Draft>{torchruns("virtual-local-rank", option_kind::flag),
                  refusal{"set CUDA_VISIBLE_DEVICES in the script from LOCAL_RANK instead"}},
    option<Draft>{torchruns("exit-barrier-timeout"),
                  refusal{"ddprun waits for the other nodes without a limit and says for whom"}},
    option<Draft>{torchruns_on_the_line("use-env", option_kind::flag),
                  refusal{"LOCAL_RANK is always in the environment; leave it out"}},
};

}  // namespace ddprun::launcher
