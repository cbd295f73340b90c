// The options for settings that all nodes of a run must agree on: one for each row of
// setting_table.
#pragma once

#include "rendezvous/cli/option.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

namespace ddprun::launcher {

inline cli::checked read_setting(const range_row& row, run_settings& settings,
                                 const cli::given_option& option) {
  const auto range = cli::read_node_range(option.given, option.value, row.max);
  if (!range) return range.error();
  settings.*row.min_field = range->min;
  settings.*row.max_field = range->max;
  return {};
}

inline cli::checked read_setting(const count_row& row, run_settings& settings,
                                 const cli::given_option& option) {
  const auto count = cli::read_count(option.given, option.value, row.counted, 0, row.max);
  if (!count) return count.error();
  settings.*row.field = *count;
  return {};
}

template <typename Word>
cli::checked read_setting(const word_row<Word>& row, run_settings& settings,
                          const cli::given_option& option) {
  for (int index = 0; index <= static_cast<int>(row.last); ++index) {
    const auto word = static_cast<Word>(index);
    if (to_string(word) != option.value) continue;
    settings.*row.field = word;
    return {};
  }
  return cli::usage_error{option.given + ": write " + std::string(row.choices)};
}

constexpr std::string_view typed_form(const range_row&) {
  return "N | MIN:MAX";
}
constexpr std::string_view typed_form(const count_row&) {
  return "N";
}
template <typename Word>
constexpr std::string_view typed_form(const word_row<Word>& row) {
  return row.typed;
}

// The default as it would be typed: 1, not 1:1.
inline std::string default_of(const range_row& row) {
  const run_settings settings;
  const std::string text = value_text(row, settings);
  return settings.*row.min_field == settings.*row.max_field ? text.substr(0, text.find(':')) : text;
}
template <typename Row>
std::string default_of(const Row& row) {
  return value_text(row, run_settings());
}

template <std::size_t Index, typename Draft>
cli::checked apply_setting(Draft& draft, const cli::given_option& option) {
  return read_setting(std::get<Index>(setting_table), draft.options.settings, option);
}

template <std::size_t Index, typename Draft>
constexpr cli::option<Draft> setting_option() {
  const auto& row = std::get<Index>(setting_table);
  return {{.name = row.words.name,
           .value = typed_form(row),
           .heading = row.words.heading,
           .help = row.words.help,
           .whose = row.words.in_torchrun ? cli::option_owner::torchrun : cli::option_owner::ddprun,
           .default_text = [] { return default_of(std::get<Index>(setting_table)); }},
          apply_setting<Index, Draft>};
}

template <typename Draft>
inline constexpr auto setting_options = []<std::size_t... Index>(std::index_sequence<Index...>) {
  return std::array{setting_option<Index, Draft>()...};
}
(std::make_index_sequence<std::tuple_size_v<decltype(setting_table)>>());

}  // namespace ddprun::launcher
