// The options that select and format a program's own messages, the same for all programs.
//
// A draft provides them by an overload of this function:
//   cli::log_options& log_options_of(my_draft&);
#pragma once

#include "rendezvous/base/log_style.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <array>
#include <string_view>

namespace ddprun::cli {

struct log_options {
  note_level least = note_level::info;
  log_style style;
};

template <typename Draft>
checked apply_log_level(Draft& draft, const given_option& option) {
  return keep(log_options_of(draft).least, read_log_level(option.given, option.value));
}

// Overwrites --log-level, so that the later of the two counts, as with an option given twice.
template <typename Draft>
checked apply_quiet(Draft& draft, const given_option&) {
  log_options_of(draft).least = note_level::warning;
  return {};
}

template <typename Draft>
checked apply_log_time(Draft& draft, const given_option& option) {
  static constexpr typed_word<time_style> words[] = {
      {"time", time_style::time}, {"iso", time_style::iso}, {"none", time_style::none}};
  return keep(log_options_of(draft).style.time,
              read_word(option.given, option.value, words, "time, iso or none"));
}

template <typename Draft>
checked apply_log_format(Draft& draft, const given_option& option) {
  static constexpr typed_word<log_format> words[] = {{"text", log_format::text},
                                                     {"json", log_format::json}};
  return keep(log_options_of(draft).style.format,
              read_word(option.given, option.value, words, "text or json"));
}

// `heading` is the one of the program's general options.
template <typename Draft>
constexpr std::array<option<Draft>, 4> log_rows(std::string_view heading) {
  return {
      option<Draft>{{.name = "log-level",
                     .value = "debug | info | warning | error",
                     .heading = heading,
                     .help = "of its own messages on standard error (info)"},
                    apply_log_level<Draft>},
      option<Draft>{{.name = "quiet",
                     .heading = heading,
                     .help = "only warnings and errors, failure reports included; the same as\n"
                             "--log-level=warning; the later of the two counts",
                     .kind = option_kind::flag},
                    apply_quiet<Draft>},
      option<Draft>{{.name = "log-time",
                     .value = "time | iso | none",
                     .heading = heading,
                     .help = "time stamps; iso: 2026-11-24T22:03:05.412+01:00 (time)"},
                    apply_log_time<Draft>},
      option<Draft>{{.name = "log-format",
                     .value = "text | json",
                     .heading = heading,
                     .help = "json: one object per line (text)"},
                    apply_log_format<Draft>},
  };
}

}  // namespace ddprun::cli
