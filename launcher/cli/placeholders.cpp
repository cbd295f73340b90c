#include "launcher/cli/placeholders.hpp"

#include <algorithm>

namespace ddprun::launcher {
namespace {

bool continues_name(std::string_view text) {
  if (text.empty()) return false;
  const char c = text.front();
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::size_t run_of(char c, std::string_view text) {
  return std::min(text.find_first_not_of(c), text.size());
}

// Replaces the $ at the start of `text` and removes it, together with braces that follow, which are
// therefore not ours.
std::string take_dollar(std::string_view& text, const std::vector<placeholder>& values) {
  for (const placeholder& one : values) {
    const std::string name(one.name);
    for (const std::string& macro : {"${" + name + "}", "$" + name}) {
      if (!text.starts_with(macro)) continue;
      const bool whole_name = macro.back() == '}' || !continues_name(text.substr(macro.size()));
      if (!whole_name) continue;
      text.remove_prefix(macro.size());
      return one.value;
    }
  }
  text.remove_prefix(text.starts_with("$$") ? 2 : 1);
  const std::size_t braces = run_of('{', text);
  text.remove_prefix(braces);
  return "$" + std::string(braces, '{');
}

// The same for a brace. Of as many braces before the name as after it, each two stand for one
// brace, and a remaining one marks our placeholder; surplus braces on one side stay.
std::string take_braces(std::string_view& text, const std::vector<placeholder>& values) {
  const std::size_t before = run_of('{', text);
  const std::string_view rest = text.substr(before);
  const std::string_view name = rest.substr(0, rest.find('}'));
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const placeholder& value) { return value.name == name; });
  const std::size_t after = run_of('}', rest.substr(name.size()));
  const std::size_t pairs = std::min(before, after);
  if (found == values.end() || pairs == 0) {
    text.remove_prefix(before);
    return std::string(before, '{');
  }
  text.remove_prefix(before + name.size() + pairs);
  const std::size_t kept = pairs / 2;
  return std::string(before - pairs + kept, '{') +
         (pairs % 2 == 1 ? found->value : std::string(name)) + std::string(kept, '}');
}

}  // namespace

std::string fill_in(std::string_view text, const std::vector<placeholder>& values,
                    const std::string& local_rank) {
  const std::vector<placeholder> macros = {{"local_rank", local_rank}};
  std::string filled;
  while (!text.empty()) {
    const std::size_t next = text.find_first_of("${");
    filled += text.substr(0, next);
    if (next == std::string_view::npos) break;
    text.remove_prefix(next);
    filled += text.front() == '$' ? take_dollar(text, macros) : take_braces(text, values);
  }
  return filled;
}

std::string fill_template(std::string_view text, const std::vector<placeholder>& values) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t next = text.find('$');
    filled += text.substr(0, next);
    if (next == std::string_view::npos) break;
    text.remove_prefix(next);
    filled += take_dollar(text, values);
  }
  return filled;
}

}  // namespace ddprun::launcher
