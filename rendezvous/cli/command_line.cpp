#include "rendezvous/cli/command_line.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun::cli {
namespace {

std::string with_value(const std::string& name, const std::string& value) {
  return name + "=" + (value.empty() ? "''" : value);
}

// argparse's rule for words that cannot be a value: they look like an option, and neither like a
// number nor like several words ("-i key", an argument for another program).
bool looks_like_option(const std::string& text) {
  if (text.size() < 2 || text[0] != '-' || text.find(' ') != std::string::npos) return false;
  return text[1] != '.' && (text[1] < '0' || text[1] > '9');
}

class splitter {
 public:
  splitter(const command& of, const std::vector<std::string>& words, split_line& line,
           bool is_lenient = false)
      : of_(of), words_(words), line_(line), is_lenient_(is_lenient) {}

  checked run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      checked wrong;
      if (word == "--") return take_script(next_, true);
      if (word.starts_with("--")) {
        wrong = take_long(word);
      } else if (word.size() > 1 && word[0] == '-') {
        wrong = take_letters(word);
      } else {
        return take_script(next_ - 1, false);
      }
      if (wrong && is_lenient_) {
        skip_value();
      } else if (wrong || asks()) {
        return wrong;
      }
    }
    return {};
  }

  // --help and similar options are answered whatever else is on the line or in the environment.
  bool asks() const {
    return !line_.options.empty() && line_.options.back().spec->kind == option_kind::question;
  }

 private:
  // Skips the value of an unknown option.
  void skip_value() {
    const bool is_value = next_ + 1 < words_.size() && !looks_like_option(words_[next_]) &&
                          looks_like_option(words_[next_ + 1]);
    if (is_value) ++next_;
  }

  // As in argparse, the very first "--" is not an argument, whether before the script or after it.
  checked take_script(std::size_t first, bool is_behind_dashes) {
    if (first >= words_.size()) return {};
    if (!of_.takes_script) {
      return usage_error{"unexpected argument " + words_[first] + "; " + std::string(of_.program) +
                         " --help lists all"};
    }
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(first);
    line_.program = *begin;
    auto arguments = begin + 1;
    if (!is_behind_dashes && arguments != words_.end() && *arguments == "--") ++arguments;
    line_.arguments.assign(arguments, words_.end());
    return {};
  }

  checked take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto found = find_option(of_, std::string_view(name).substr(2));
    if (!found) return found.error();
    given_option option{*found, {}, word};
    if (option.spec->kind != option_kind::value) {
      if (equals != std::string::npos) return usage_error{word + ": " + name + " takes no value"};
    } else if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (const checked wrong = take_value(name, option)) {
      return wrong;
    }
    line_.options.push_back(std::move(option));
    return {};
  }

  // Reads "-m", "-r 3", "-r3", "-mr3", and "-np 4", as users of mpirun write it.
  checked take_letters(const std::string& word) {
    if (word == "-np" && find_letter(of_, 'n') == nullptr && has_option("num-proc"))
      return take_long("--num-proc");
    for (std::size_t index = 1; index < word.size(); ++index) {
      const std::string name = std::string("-") + word[index];
      const option_spec* const spec = find_letter(of_, word[index]);
      if (spec == nullptr) {
        return usage_error{"unknown option " + name + (word == name ? "" : " in " + word) +
                           "; long options start with two dashes, and " + std::string(of_.program) +
                           " --help lists all"};
      }
      given_option option{spec, {}, name};
      const bool is_flag = spec->kind != option_kind::value;
      // The rest of the word is the value, as in "-r3".
      if (!is_flag && index + 1 < word.size()) {
        option.value = word.substr(word[index + 1] == '=' ? index + 2 : index + 1);
        option.given = word;
        line_.options.push_back(std::move(option));
        return {};
      }
      if (!is_flag) {
        if (const checked wrong = take_value(name, option)) return wrong;
      }
      line_.options.push_back(std::move(option));
    }
    return {};
  }

  bool has_option(std::string_view name) const {
    return std::any_of(of_.options.begin(), of_.options.end(),
                       [&](const option_spec* spec) { return spec->name == name; });
  }

  checked take_value(const std::string& name, given_option& option) {
    if (next_ >= words_.size() || looks_like_option(words_[next_])) {
      return usage_error{name + " needs a value"};
    }
    option.value = words_[next_++];
    option.given = with_value(name, option.value);
    return {};
  }

  const command& of_;
  const std::vector<std::string>& words_;
  split_line& line_;
  const bool is_lenient_;
  std::size_t next_ = 0;
};

// Reads a flag's integer from the environment, as torchrun does.
checked read_environment_flag(const given_option& option, bool& on) {
  int number = 0;
  const char* const end = option.value.data() + option.value.size();
  const auto [stopped, error] = std::from_chars(option.value.data(), end, number);
  if (option.value.empty() || error != std::errc() || stopped != end) {
    return usage_error{option.given + ": a flag in the environment is 1 or 0"};
  }
  on = number != 0;
  return {};
}

checked take_environment(const command& of, const environment_map& environment, split_line& line,
                         bool is_lenient = false) {
  if (of.environment_prefix.empty()) return {};
  for (const option_spec* spec : of.options) {
    if (!spec->in_environment || spec->kind == option_kind::question) continue;
    const std::string name = environment_name(of, spec->name);
    const std::string* const value = find_variable(environment, name);
    if (value == nullptr || value->empty()) continue;  // a template has left it empty
    given_option option{spec, *value, with_value(name, *value)};
    if (spec->kind == option_kind::flag) {
      bool on = false;
      const checked wrong = read_environment_flag(option, on);
      if (wrong && !is_lenient) return wrong;
      // A flag that is off in the environment is as if it was not given.
      if (!on) continue;
      option.value.clear();
    }
    line.options.push_back(std::move(option));
  }
  return {};
}

}  // namespace

parsed<split_line> split_command_line(const command& of, const std::vector<std::string>& words,
                                      const environment_map& environment) {
  split_line written;
  splitter split(of, words, written);
  if (const checked wrong = split.run()) return *wrong;
  // A question needs no valid environment.
  if (split.asks()) return split_line{{written.options.back()}, {}, {}};
  split_line line;
  if (const checked wrong = take_environment(of, environment, line)) return *wrong;
  line.options.insert(line.options.end(), written.options.begin(), written.options.end());
  line.program = std::move(written.program);
  line.arguments = std::move(written.arguments);
  return line;
}

std::vector<given_option> readable_options(const command& of, const std::vector<std::string>& words,
                                           const environment_map& environment) {
  split_line line;
  // Mistakes are ignored in both.
  take_environment(of, environment, line, true);
  splitter(of, words, line, true).run();
  return std::move(line.options);
}

}  // namespace ddprun::cli
