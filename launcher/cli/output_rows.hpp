// The rows of the option table about the workers' output; see output_options.hpp.
#pragma once

#include "launcher/cli/option_table.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked apply_log_dir(options_draft& draft, const cli::given_option& option) {
  draft.options.output.log_dir = option.value;
  return {};
}

inline cli::checked apply_redirects(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.output.redirects, read_streams(option.given, option.value));
}

inline cli::checked apply_tee(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.output.tee, read_streams(option.given, option.value));
}

inline cli::checked apply_local_ranks_filter(options_draft& draft,
                                             const cli::given_option& option) {
  return cli::keep(draft.options.output.shown, read_local_ranks(option.given, option.value));
}

inline cli::checked apply_stdout_filters(options_draft& draft, const cli::given_option& option) {
  draft.options.output.stdout_filters = read_filters(option.value);
  return {};
}

inline cli::checked apply_stderr_filters(options_draft& draft, const cli::given_option& option) {
  draft.options.output.stderr_filters = read_filters(option.value);
  return {};
}

inline cli::checked apply_prefix_template(options_draft& draft, const cli::given_option& option) {
  draft.options.output.prefix_template = option.value;
  return {};
}

inline cli::checked apply_color(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.output.color, cli::read_color_mode(option.given, option.value));
}

inline cli::checked apply_pty(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<pty_mode> words[] = {{"auto", pty_mode::automatic},
                                                        {"off", pty_mode::off}};
  return cli::keep(draft.options.output.pty,
                   cli::read_word(option.given, option.value, words, "auto or off"));
}

inline cli::checked apply_report(options_draft& draft, const cli::given_option& option) {
  draft.options.output.report_file = option.value;
  return {};
}

inline constexpr std::array output_rows = {
    cli::option<options_draft>{{"log-dir", "DIR", "Output of workers",
                                "where --redirects, --tee and torch's @record write:\n"
                                "DIR/RUN_NODE_RANDOM/attempt_N/LOCAL_RANK/stdout.log, stderr.log\n"
                                "and error.json; /dev/null: no files (a new folder in $TMPDIR)",
                                cli::option_owner::torchrun},
                               apply_log_dir},
    cli::option<options_draft>{
        {"redirects", "0 | 1 | 2 | 3 | RANK:N,...", "Output of workers",
         "write to files only: 1: stdout, 2: stderr, 3: both; may differ per\n"
         "local rank: 0:3,12:1 (0)",
         cli::option_owner::torchrun, cli::option_kind::value, 'r'},
        apply_redirects},
    cli::option<options_draft>{{"tee", "0 | 1 | 2 | 3 | RANK:N,...", "Output of workers",
                                "likewise, but to files and to ddprun's own output (0)",
                                cli::option_owner::torchrun, cli::option_kind::value, 't'},
                               apply_tee},
    cli::option<options_draft>{
        {"local-ranks-filter", "RANK,...", "Output of workers",
         "show only these local ranks; files have all of them", cli::option_owner::torchrun},
        apply_local_ranks_filter},
    cli::option<options_draft>{{"duplicate-stdout-filters", "TEXT,...", "Output of workers",
                                "copy teed lines of stdout that contain one of these texts to\n"
                                "attempt_N/filtered_stdout.log; write ,, for a comma",
                                cli::option_owner::torchrun},
                               apply_stdout_filters},
    cli::option<options_draft>{{"duplicate-stderr-filters", "TEXT,...", "Output of workers",
                                "the same for stderr", cli::option_owner::torchrun},
                               apply_stderr_filters},
    cli::option<options_draft>{{"log-line-prefix-template", "TEXT", "Output of workers",
                                "what each line begins with: ${rank} ${local_rank} ${role_name}\n"
                                "${hostname} ${node} ${group_rank} ${world_size} ${round}\n"
                                "([${node}:${rank}] and a space; nothing in a world of one); ${}\n"
                                "for lines as they are",
                                cli::option_owner::torchrun},
                               apply_prefix_template},
    cli::option<options_draft>{
        {"color", "auto | always | never", "Output of workers",
         "colour the prefix of each rank, warnings and errors, though never\n"
         "in files; auto: on a terminal, unless NO_COLOR is set or\n"
         "TERM=dumb (auto)",
         cli::option_owner::ddprun},
        apply_color},
    cli::option<options_draft>{
        {"pty", "auto | off", "Output of workers",
         "auto: if ddprun's output is a terminal, and not teed, rank 0 writes\n"
         "to a terminal too; with several workers cursor movements are left\n"
         "out (off suits rich and the like better); off: to a pipe (auto)",
         cli::option_owner::ddprun},
        apply_pty},
    cli::option<options_draft>{{"report", "FILE", "Failures",
                                "append a line of JSON to FILE when a round has ended: why it\n"
                                "ended, how each rank ended, and what was done about it",
                                cli::option_owner::ddprun},
                               apply_report},
};

}  // namespace ddprun::launcher
