#include "examples/common/example_command_line.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace examples {
namespace {

// CLI11's own number types accept "1e3" and "0x10", and report other errors as "Could not convert".
template <typename Value>
bool read_number(const std::string& text, Value& into) {
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, into);
  return failure == std::errc{} && rest == end;
}

[[noreturn]] void refuse_value(const std::string& name, const std::string& text,
                               const std::string& must) {
  throw CLI::ValidationError(name + " is '" + text + "': it must be " + must);
}

template <typename Number, typename Value>
CLI::callback_t number_reader(const std::string& name, Value& value, std::uint64_t least) {
  return [&value, name, least](const CLI::results_t& words) {
    Number read = 0;
    if (!read_number(words[0], read) || read < least) {
      refuse_value(name, words[0], "a whole number of at least " + std::to_string(least));
    }
    value = read;
    return true;
  };
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const auto& word : words)
    all += (all.empty() ? "" : ", ") + word;
  return all;
}

}  // namespace

command_line::command_line(std::string program, const std::string& about)
    : program_(std::move(program)), parser_(std::make_unique<CLI::App>(about, program_)) {
  parser_->get_formatter()->column_width(30);
  // The last value counts, as in Python's argparse, so that options can be appended to a command.
  parser_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

command_line::~command_line() = default;

void command_line::number(const std::string& name, std::uint64_t& value, const std::string& about,
                          std::uint64_t least) {
  parser_->add_option(name, number_reader<std::uint64_t>(name, value, least), about)
      ->type_name("N")
      ->default_str(std::to_string(value));
}

void command_line::fraction(const std::string& name, double& value, const std::string& about) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  const auto read = [&value, name](const CLI::results_t& words) {
    if (!read_number(words[0], value) || !(value >= 0) || !(value <= 1e9)) {
      refuse_value(name, words[0], "a number, not below 0");
    }
    return true;
  };
  parser_->add_option(name, read, about)->type_name("X")->default_str(text);
}

void command_line::text(const std::string& name, std::string& value, const std::string& about) {
  const auto take = [&value](const CLI::results_t& words) {
    value = words[0];
    return true;
  };
  parser_->add_option(name, take, about)->type_name("TEXT")->default_str(value);
}

void command_line::one_of_names(const std::string& name, const std::string& usual,
                                const std::vector<std::string>& choices, const std::string& about,
                                const std::function<void(std::size_t)>& take) {
  const auto choose = [name, choices, take](const CLI::results_t& words) {
    const auto found = std::find(choices.begin(), choices.end(), words[0]);
    if (found == choices.end()) refuse_value(name, words[0], "one of " + joined(choices));
    take(static_cast<std::size_t>(found - choices.begin()));
    return true;
  };
  parser_->add_option(name, choose, about + ": " + joined(choices))
      ->type_name("TEXT")
      ->default_str(usual);
}

void command_line::flag(const std::string& name, bool& value, const std::string& about) {
  parser_->add_flag_callback(
      name, [&value] { value = true; }, about);
}

void command_line::rank_and_world_size(ddprun::worker::place_by_hand& place) {
  parser_
      ->add_option("--rank", number_reader<std::uint32_t>("--rank", place.rank, 0),
                   "this one's, from 0")
      ->type_name("N");
  parser_
      ->add_option("--world-size",
                   number_reader<std::uint32_t>("--world-size", place.world_size, 1),
                   "how many there are")
      ->type_name("N");
}

void command_line::place(ddprun::worker::place_by_hand& place) {
  text("--init-method", place.init_method,
       "tcp://IP:PORT, where rank 0 serves the others: then --rank and --world-size too, and no "
       "launcher is needed");
  rank_and_world_size(place);
}

void command_line::parse(int count, char** values) {
  try {
    parser_->parse(count, values);
  } catch (const CLI::CallForHelp& help) {
    std::exit(parser_->exit(help));
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }
}

void command_line::refuse(const std::string& why) const {
  std::fprintf(stderr, "%s: %s; --help lists the options\n", program_.c_str(), why.c_str());
  std::exit(2);
}

}  // namespace examples
