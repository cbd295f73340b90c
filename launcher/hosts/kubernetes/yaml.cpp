#include "launcher/hosts/kubernetes/yaml.hpp"

#include "launcher/hosts/kubernetes/ascii.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::kubernetes {
namespace {

// YAML 1.1, which kubectl reads, takes these for booleans or null, in any case.
bool is_a_word_of_yaml(std::string_view text) {
  static constexpr std::array words = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), to_small_letter);
  return std::find(words.begin(), words.end(), small) != words.end();
}

// True for text that begins with a letter, '/' or "--" and contains nothing special to YAML; so it
// is not a number, date or infinity either.
bool stands_as_it_is(std::string_view text) {
  if (text.empty() || is_a_word_of_yaml(text)) return false;
  const bool is_option = text.size() > 2 && text.starts_with("--") && is_letter(text[2]);
  if (!is_letter(text.front()) && text.front() != '/' && !is_option) return false;
  // ": " and " #" need a blank, which is excluded; ":" at the end would make a key.
  return text.back() != ':' && std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || is_digit(c) ||
                  std::string_view("-_./=:@+,").find(c) != std::string_view::npos;
         });
}

void add_escaped(std::string& text, unsigned character) {
  static constexpr std::string_view digits = "0123456789abcdef";
  text += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4)
    text += digits[character >> shift & 0xf];
}

// UTF-8's control characters from U+0080 on, the line ends U+2028 and U+2029, and the byte order
// mark must be escaped in YAML. 0: no escape needed.
unsigned hidden_character(std::string_view rest) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(rest[at]); };
  if (rest.size() >= 2 && byte(0) == 0xc2 && byte(1) < 0xa0) return byte(1);
  if (rest.starts_with("\xe2\x80\xa8")) return 0x2028;
  if (rest.starts_with("\xe2\x80\xa9")) return 0x2029;
  return rest.starts_with("\xef\xbb\xbf") ? 0xfeff : 0;
}

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\') {
      made += '\\';
      made += text[at];
    } else if (c == '\n') {
      made += "\\n";
    } else if (c == '\t') {
      made += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      add_escaped(made, c);
    } else if (const unsigned hidden = hidden_character(text.substr(at)); hidden != 0) {
      add_escaped(made, hidden);
      at += hidden < 0x100 ? 1 : 2;
    } else {
      made += text[at];
    }
  }
  return made + '"';
}

}  // namespace

std::string yaml_text(std::string_view text) {
  return stands_as_it_is(text) ? std::string(text) : quoted(text);
}

void yaml_writer::line(std::string_view words) {
  const std::size_t columns = 2 * depth_;
  text_ += begins_item_ ? std::string(columns - 2, ' ') + "- " : std::string(columns, ' ');
  begins_item_ = false;
  text_ += std::string(words) + "\n";
}

void yaml_writer::document() {
  if (!text_.empty()) text_ += "---\n";
}

void yaml_writer::comment(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    text_ += std::string(2 * depth_, ' ') + "# " + std::string(lines.substr(0, end)) + "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void yaml_writer::entry(std::string_view key, std::string_view text) {
  line(yaml_text(key) + ": " + yaml_text(text));
}

void yaml_writer::entry(std::string_view key, std::int64_t number) {
  line(yaml_text(key) + ": " + std::to_string(number));
}

void yaml_writer::truth(std::string_view key, bool value) {
  line(yaml_text(key) + (value ? ": true" : ": false"));
}

void yaml_writer::nothing(std::string_view key) {
  line(yaml_text(key) + ": {}");
}

void yaml_writer::group(std::string_view key, const content& write) {
  line(yaml_text(key) + ":");
  ++depth_;
  write();
  --depth_;
}

void yaml_writer::item(const content& write) {
  ++depth_;
  begins_item_ = true;
  write();
  begins_item_ = false;
  --depth_;
}

void yaml_writer::item(std::string_view text) {
  line("- " + yaml_text(text));
}

void yaml_writer::item(std::int64_t number) {
  line("- " + std::to_string(number));
}

}  // namespace ddprun::launcher::kubernetes
