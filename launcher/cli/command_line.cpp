#include "launcher/cli/command_line.hpp"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

std::string with_value(const std::string& name, const std::string& value) {
  return name + "=" + (value.empty() ? "''" : value);
}

// The line for an option that ddprun has no meaning for; nothing when `given` may pass.
checked check_supported(const given_option& option) {
  const option_spec& spec = *option.spec;
  if (spec.unsupported.empty()) return {};
  if (!spec.harmless.empty() && option.value == spec.harmless) return {};
  return usage_error{option.given + " is not supported yet: " + std::string(spec.unsupported)};
}

// argparse's rule for what cannot be a value: it looks like an option and not like a number.
bool looks_like_option(const std::string& text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return text[1] != '.' && (text[1] < '0' || text[1] > '9');
}

class splitter {
 public:
  splitter(const std::vector<std::string>& words, split_line& line) : words_(words), line_(line) {}

  checked run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      checked wrong;
      if (word == "--") {
        take_script(next_);
        return {};
      }
      if (word.starts_with("--")) {
        wrong = take_long(word);
      } else if (word.size() > 1 && word[0] == '-') {
        wrong = take_letters(word);
      } else {
        take_script(next_ - 1);
        return {};
      }
      if (wrong) return wrong;
    }
    return {};
  }

 private:
  void take_script(std::size_t first) {
    if (first >= words_.size()) return;
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(first);
    line_.program = *begin;
    line_.arguments.assign(begin + 1, words_.end());
  }

  checked take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto found = find_option(std::string_view(name).substr(2));
    if (!found) return found.error();
    given_option option{*found, {}, word};
    if (option.spec->kind == option_kind::flag) {
      if (equals != std::string::npos) return usage_error{word + ": " + name + " takes no value"};
    } else if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (const checked wrong = take_value(name, option)) {
      return wrong;
    }
    return add(std::move(option));
  }

  // "-m", "-r 3", "-r3", "-mr3".
  checked take_letters(const std::string& word) {
    for (std::size_t index = 1; index < word.size(); ++index) {
      const std::string name = std::string("-") + word[index];
      const option_spec* const spec = find_letter(word[index]);
      if (spec == nullptr) {
        return usage_error{"unknown option " + name + (word == name ? "" : " in " + word) +
                           "; long options start with two dashes, and ddprun --help lists all"};
      }
      given_option option{spec, {}, name};
      const bool is_flag = spec->kind == option_kind::flag;
      if (!is_flag && index + 1 < word.size()) {
        option.value = word.substr(word[index + 1] == '=' ? index + 2 : index + 1);
        option.given = word;
        return add(std::move(option));
      }
      if (!is_flag) {
        if (const checked wrong = take_value(name, option)) return wrong;
      }
      if (const checked wrong = add(std::move(option))) return wrong;
    }
    return {};
  }

  checked take_value(const std::string& name, given_option& option) {
    if (next_ >= words_.size() || looks_like_option(words_[next_])) {
      return usage_error{name + " needs a value"};
    }
    option.value = words_[next_++];
    option.given = with_value(name, option.value);
    return {};
  }

  checked add(given_option option) {
    checked wrong = check_supported(option);
    line_.options.push_back(std::move(option));
    return wrong;
  }

  const std::vector<std::string>& words_;
  split_line& line_;
  std::size_t next_ = 0;
};

// Sets `on` from the integer that torchrun takes for a flag.
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

checked take_environment(const environment_map& environment, split_line& line) {
  for (const option_spec& spec : option_table()) {
    if (!spec.in_environment) continue;
    const std::string name = environment_name(spec.name);
    const std::string* const value = find_variable(environment, name);
    if (value == nullptr) continue;
    given_option option{&spec, *value, with_value(name, *value)};
    if (spec.kind == option_kind::flag) {
      bool on = false;
      if (const checked wrong = read_environment_flag(option, on)) return wrong;
      if (!on) continue;
      option.value.clear();
    }
    if (const checked wrong = check_supported(option)) return wrong;
    line.options.push_back(std::move(option));
  }
  return {};
}

}  // namespace

parsed<split_line> split_command_line(const std::vector<std::string>& command_line,
                                      const environment_map& environment) {
  split_line line;
  split_line written;
  if (const checked wrong = splitter(command_line, written).run()) return *wrong;
  // --help and --version answer whatever the environment says.
  const bool asks =
      std::any_of(written.options.begin(), written.options.end(), [](const given_option& option) {
        return option.spec->name == "help" || option.spec->name == "version";
      });
  if (!asks) {
    if (const checked wrong = take_environment(environment, line)) return *wrong;
  }
  line.options.insert(line.options.end(), written.options.begin(), written.options.end());
  line.program = std::move(written.program);
  line.arguments = std::move(written.arguments);
  return line;
}

}  // namespace ddprun
