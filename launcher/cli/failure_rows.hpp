// The rows of the option table about what is found out when a round fails or hangs, in order.
#pragma once

#include "launcher/cli/option_table.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked apply_evidence(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.evidence_limit,
                   cli::read_seconds(option.given, option.value, true));
}

inline cli::checked apply_collectives(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<bool> words[] = {{"on", true}, {"off", false}};
  return cli::keep(draft.options.asks_collectives,
                   cli::read_word(option.given, option.value, words, "on or off"));
}

inline cli::checked apply_hang_timeout(options_draft& draft, const cli::given_option& option) {
  const std::string_view text = cli::without_blanks(option.value);
  hang_options& hang = draft.options.hang;
  hang = {};
  hang.is_named = text != "off";
  if (text == "off" || text == "auto") return {};
  const auto seconds = cli::read_seconds(option.given, text, false);
  if (!seconds) {
    return cli::usage_error{option.given + ": write auto, off, or seconds from 0.001"};
  }
  hang.limit = *seconds;
  return {};
}

inline cli::checked apply_survivors(options_draft& draft, const cli::given_option& option) {
  static constexpr cli::typed_word<bool> words[] = {{"on", true}, {"off", false}};
  return cli::keep(draft.options.keeps_survivors,
                   cli::read_word(option.given, option.value, words, "on or off"));
}

inline constexpr std::array failure_rows = {
    cli::option<options_draft>{
        {"evidence", "SECONDS", "Failures",
         "before a round with a rank that hangs is stopped, ask its ranks for\n"
         "their stacks, and wait for them this long at most; 0: do not ask (2)"},
        apply_evidence},
    cli::option<options_draft>{{"collectives", "on | off", "Failures",
                                "on: ranks that hang are also asked which collectives they\n"
                                "have called, by PyTorch's own record of them (off)"},
                               apply_collectives},
    cli::option<options_draft>{
        {"hang-timeout", "auto | off | SECONDS", "Failures",
         "when no rank of a node has moved for this long, kill the one that\n"
         "the others wait for, which is a failure; auto: only name it, after\n"
         "five times the longest pause so far, 20 s at least (auto)"},
        apply_hang_timeout},
    cli::option<options_draft>{
        {"survivors", "on | off", "Failures",
         "on: after a failure, workers that can leave their round keep process\n"
         "and data (ddprun.survive), and only the others are started (off)"},
        apply_survivors},
};

}  // namespace ddprun::launcher
