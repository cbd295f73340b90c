// An option is one row of a program's table: its name, its value, its owner, its effect, and its
// text in --help. A row without an action does not compile.
//
// Names are stored with dashes; underscores mean the same.
#pragma once

#include "rendezvous/cli/usage_error.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::cli {

enum class option_kind {
  value,     // --name VALUE or --name=VALUE
  flag,      // --name; in the environment an integer, on if it is not 0
  question,  // a flag that is answered whatever else is given, such as --help
};

// A prefix that means one option of torchrun means the same here, whatever ddprun has added.
enum class option_owner { torchrun, ddprun };

struct option_spec {
  std::string_view name;          // without the leading dashes
  std::string_view value = {};    // what follows "=" in --help
  std::string_view heading = {};  // its section in --help
  std::string_view help = {};     // lines; {} is the default; empty: not shown
  option_owner whose = option_owner::ddprun;
  option_kind kind = option_kind::value;
  char letter = 0;  // short form; 0: none
  std::string (*default_text)() = nullptr;
  // Whether prefix and NAME in the environment give a default; never for a question.
  bool in_environment = true;
};

struct given_option {
  const option_spec* spec = nullptr;
  std::string value;  // flags: empty
  std::string given;  // as the user wrote it, for messages: "--nnodes=3:2", "PET_NNODES=3:2"
};

inline usage_error wrong(const given_option& option, const std::string& text) {
  return wrong(option.given, text);
}

// Stores a value that was read, or returns the error.
template <typename Target, typename Read>
checked keep(Target& target, const Read& read) {
  if (!read) return read.error();
  target = *read;
  return {};
}

// Used instead of an action: the answer to a known option that is not supported.
struct refusal {
  std::string_view why;            // and what to do
  std::string_view harmless = {};  // the one value that requests nothing
};

// An option's effect: reads the given value into the draft of a program's options.
template <typename Draft>
class option_action {
 public:
  using function = checked (*)(Draft&, const given_option&);

  consteval option_action(function apply) : apply_(apply) {}
  option_action(std::nullptr_t) = delete;
  consteval option_action(refusal why) : refusal_(why) {}

  checked operator()(Draft& draft, const given_option& option) const {
    if (apply_ != nullptr) return apply_(draft, option);
    if (!refusal_.harmless.empty() && option.value == refusal_.harmless) return {};
    return usage_error{option.given + " is not supported: " + std::string(refusal_.why)};
  }

 private:
  function apply_ = nullptr;
  refusal refusal_;
};

template <typename Draft>
struct option {
  option_spec spec;
  option_action<Draft> action;
};

// Applies the row of `given`, whose spec must be one of the table's.
template <typename Draft, std::size_t Count>
checked apply_option(const std::array<option<Draft>, Count>& table, Draft& draft,
                     const given_option& given) {
  for (const option<Draft>& row : table) {
    if (&row.spec == given.spec) return row.action(draft, given);
  }
  return usage_error{given.given + " is an option of another program"};
}

// A program's command line.
struct command {
  std::string_view program;             // "ddprun"
  std::string_view environment_prefix;  // for defaults: "PET_"; empty: none
  bool takes_script = false;            // followed by arguments of its own
  std::vector<const option_spec*> options;
};

template <typename Draft, std::size_t Count>
std::vector<const option_spec*> specs_of(const std::array<option<Draft>, Count>& table) {
  std::vector<const option_spec*> specs;
  for (const option<Draft>& row : table)
    specs.push_back(&row.spec);
  return specs;
}

// Finds an option by its name, which may have underscores and may be an unambiguous prefix, as in
// argparse. The error suggests the nearest option, or lists the options that match the prefix.
parsed<const option_spec*> find_option(const command& of, std::string_view name);

// Finds an option by its letter; null if there is none.
const option_spec* find_letter(const command& of, char letter);

// "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string environment_name(const command& of, std::string_view option);

// The candidate with the fewest edits from `name`, or nothing if all are too different.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// The lines of all options under a heading, as in --help; at most 100 columns if their texts are at
// most 69.
std::string help_under(const command& of, std::string_view heading);
// Formats one entry; `text` may have several lines, and stands to the right of `left`.
std::string help_line(const std::string& left, std::string_view text);

}  // namespace ddprun::cli
