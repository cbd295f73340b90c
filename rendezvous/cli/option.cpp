#include "rendezvous/cli/option.hpp"

#include <algorithm>

namespace ddprun::cli {
namespace {

constexpr std::size_t help_column = 31;

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

std::size_t edits(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  for (std::size_t column = 0; column <= right.size(); ++column)
    row[column] = column;
  for (std::size_t line = 1; line <= left.size(); ++line) {
    std::size_t diagonal = row[0];
    row[0] = line;
    for (std::size_t column = 1; column <= right.size(); ++column) {
      const std::size_t above = row[column];
      const std::size_t change = diagonal + (left[line - 1] == right[column - 1] ? 0 : 1);
      row[column] = std::min({above + 1, row[column - 1] + 1, change});
      diagonal = above;
    }
  }
  return row.back();
}

usage_error ambiguous(std::string_view name, const std::vector<std::string_view>& matches) {
  std::string text = "--" + std::string(name) + " could be ";
  for (std::size_t index = 0; index < matches.size(); ++index) {
    if (index > 0) text += index + 1 == matches.size() ? " or " : ", ";
    text += "--" + std::string(matches[index]);
  }
  return {text + "; write more of it"};
}

usage_error unknown(const command& of, std::string_view name, const std::string& dashed) {
  std::vector<std::string_view> names;
  for (const option_spec* spec : of.options)
    names.push_back(spec->name);
  const std::string_view close = nearest(dashed, names);
  std::string text = "unknown option --" + std::string(name) + "; ";
  if (!close.empty()) text += "did you mean --" + std::string(close) + "? ";
  text += std::string(of.program) + " --help lists all";
  if (of.takes_script) text += " (options of the script come after the script)";
  return {text};
}

}  // namespace

parsed<const option_spec*> find_option(const command& of, std::string_view name) {
  const std::string dashed = with_dashes(name);
  std::vector<std::string_view> matches;
  const option_spec* match = nullptr;
  // torchrun's options first: a prefix that is unambiguous there must keep its meaning.
  for (const option_owner whose : {option_owner::torchrun, option_owner::ddprun}) {
    for (const option_spec* spec : of.options) {
      if (spec->name == dashed) return spec;
      if (dashed.empty() || !spec->name.starts_with(dashed) || spec->whose != whose) continue;
      match = spec;
      matches.push_back(spec->name);
    }
    if (matches.size() == 1) return match;
    if (matches.size() > 1) return ambiguous(name, matches);
  }
  return unknown(of, name, dashed);
}

const option_spec* find_letter(const command& of, char letter) {
  for (const option_spec* spec : of.options) {
    if (spec->letter == letter && letter != 0) return spec;
  }
  return nullptr;
}

std::string environment_name(const command& of, std::string_view option) {
  std::string name(of.environment_prefix);
  for (const char c : option)
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return name;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_edits = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(name, candidate);
    if (distance < best_edits && distance < candidate.size()) {
      best = candidate;
      best_edits = distance;
    }
  }
  return best;
}

std::string help_under(const command& of, std::string_view heading) {
  std::string lines;
  for (const option_spec* spec : of.options) {
    if (spec->heading != heading || spec->help.empty()) continue;
    std::string left = "--" + std::string(spec->name);
    if (spec->letter != 0) left = std::string("-") + spec->letter + ", " + left;
    if (!spec->value.empty()) left += "=" + std::string(spec->value);
    std::string text(spec->help);
    const std::size_t hole = text.find("{}");
    if (spec->default_text != nullptr && hole != std::string::npos) {
      text.replace(hole, 2, spec->default_text());
    }
    lines += help_line(left, text);
  }
  return lines;
}

std::string help_line(const std::string& left, std::string_view text) {
  std::string lines = "  " + left;
  if (lines.size() >= help_column)
    lines += "\n" + std::string(help_column, ' ');
  else
    lines.resize(help_column, ' ');
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines.append(help_column, ' ');
  }
  return lines + "\n";
}

}  // namespace ddprun::cli
