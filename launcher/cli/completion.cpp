#include "launcher/cli/completion.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace ddprun::launcher {
namespace {

bool is_in_help(const cli::option_spec& spec) {
  return !spec.help.empty();
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// Takes the literal words from "auto | always | never".
std::vector<std::string> choices_of(const cli::option_spec& spec) {
  std::vector<std::string> choices;
  std::string_view rest = spec.value;
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find(" | "), rest.size());
    if (is_word(rest.substr(0, bar))) choices.emplace_back(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 3, rest.size()));
  }
  return choices;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

// Quotes the text that zsh shows beside an option, in brackets and single quotes.
std::string zsh_text(std::string_view help) {
  std::string text;
  for (const char c : help.substr(0, help.find('\n'))) {
    if (c == '\'') {
      text += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      text += std::string("\\") + c;
    } else {
      text += c;
    }
  }
  return text;
}

std::string zsh_value(const cli::option_spec& spec) {
  const std::vector<std::string> choices = choices_of(spec);
  if (!choices.empty()) return ":value:(" + joined(choices) + ")";
  return spec.value == "DIR" ? ":folder:_files -/" : ":value:";
}

}  // namespace

std::string bash_completion(const cli::command& of) {
  std::string names;
  std::string cases;
  for (const cli::option_spec* spec : of.options) {
    if (!is_in_help(*spec)) continue;
    const std::string name = "--" + std::string(spec->name);
    names += (names.empty() ? "" : " ") + name;
    const std::vector<std::string> choices = choices_of(*spec);
    if (!choices.empty()) {
      cases += "    " + name + ") COMPREPLY=($(compgen -W \"" + joined(choices) +
               "\" -- \"$word\")); return ;;\n";
    } else if (spec->value == "DIR") {
      cases += "    " + name + ") COMPREPLY=($(compgen -d -- \"$word\")); return ;;\n";
    }
  }
  // Bash splits words at "=", and makes "=" a word of its own.
  return "# ddprun --print-completion bash > ~/.local/share/bash-completion/completions/ddprun\n"
         "_ddprun() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  if [[ $word == = ]]; then\n"
         "    word=\n"
         "  elif [[ $option == = ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "  fi\n"
         "  case $option in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         "\" -- \"$word\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _ddprun ddprun\n";
}

std::string zsh_completion(const cli::command& of) {
  std::string text = "#compdef ddprun\n_arguments -S \\\n";
  for (const cli::option_spec* spec : of.options) {
    if (!is_in_help(*spec)) continue;
    const bool is_flag = spec->kind != cli::option_kind::value;
    text += "  '--" + std::string(spec->name) + (is_flag ? "" : "=") + "[" + zsh_text(spec->help) +
            "]" + (is_flag ? "" : zsh_value(*spec)) + "' \\\n";
  }
  return text + "  '1:script:_files' '*::arguments:_files'\n";
}

}  // namespace ddprun::launcher
