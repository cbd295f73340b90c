// An option is one row of a program's table: its name, what it takes, whose it is, what it does,
// and its line in --help. A row without an action does not compile.
//
// Names are kept with dashes; underscores are the same.
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
  flag,      // --name; in the environment: an integer, on when not 0
  question,  // a flag that is answered whatever else is written: --help
};

// A prefix that means one option of torchrun means it here, too, whatever ddprun has added.
enum class option_owner { torchrun, ddprun };

struct option_spec {
  std::string_view name;          // without the leading dashes
  std::string_view value = {};    // what stands after "=" in --help
  std::string_view heading = {};  // under which it is there
  std::string_view help = {};     // lines; {} is the default; empty: not in --help
  option_owner whose = option_owner::ddprun;
  option_kind kind = option_kind::value;
  char letter = 0;  // short form; 0: none
  std::string (*default_text)() = nullptr;
  // The program's prefix and NAME in the environment give the default; never of a question.
  bool in_environment = true;
};

struct given_option {
  const option_spec* spec = nullptr;
  std::string value;  // flags: empty
  std::string given;  // as the person wrote it, for messages: "--nnodes=3:2", "PET_NNODES=3:2"
};

inline usage_error wrong(const given_option& option, const std::string& text) {
  return wrong(option.given, text);
}

// Puts what was read of an option into its place.
template <typename Target, typename Read>
checked keep(Target& target, const Read& read) {
  if (!read) return read.error();
  target = *read;
  return {};
}

// In place of an action: what people are told who use an option that is known, and not there.
struct refusal {
  std::string_view why;            // and what to do
  std::string_view harmless = {};  // the one value that asks for nothing
};

// What an option does: reads the given value into the draft of a program's options.
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

// Does what the row of `given` says; its spec is one of the table's.
template <typename Draft, std::size_t Count>
checked apply_option(const std::array<option<Draft>, Count>& table, Draft& draft,
                     const given_option& given) {
  for (const option<Draft>& row : table) {
    if (&row.spec == given.spec) return row.action(draft, given);
  }
  return usage_error{given.given + " is an option of another program"};
}

// A program, as far as its command line goes.
struct command {
  std::string_view program;             // "ddprun"
  std::string_view environment_prefix;  // of defaults: "PET_"; empty: there are none
  bool takes_script = false;            // with arguments of its own behind it
  std::vector<const option_spec*> options;
};

template <typename Draft, std::size_t Count>
std::vector<const option_spec*> specs_of(const std::array<option<Draft>, Count>& table) {
  std::vector<const option_spec*> specs;
  for (const option<Draft>& row : table)
    specs.push_back(&row.spec);
  return specs;
}

// The option of that name, which may have underscores and may be a prefix of one name only, as with
// argparse. The error names the nearest option, or the options that the prefix could mean.
parsed<const option_spec*> find_option(const command& of, std::string_view name);

// The option with that letter; null when there is none.
const option_spec* find_letter(const command& of, char letter);

// "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string environment_name(const command& of, std::string_view option);

// The candidate that is the fewest edits away from `name`, or nothing when all are far from it.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// The lines of all options under a heading, as --help has them, at most 100 columns wide if their
// texts are at most 69.
std::string help_under(const command& of, std::string_view heading);
// One line of it: `text` may have more, and goes to the right of `left`.
std::string help_line(const std::string& left, std::string_view text);

}  // namespace ddprun::cli
